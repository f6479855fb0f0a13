//===- main.cpp - heddle-run: runs compiled artifacts, without LLVM -------===//

#include "../common/Call.h"
#include "../common/Launch.h"
#include "../common/TimeKernels.h"

using namespace heddle::tools;

int main(int argc, char **argv) {
  CLI::App app("Runs what `heddle compile` wrote; needs no compiler.");
  app.require_subcommand(1);
  int result = exitSuccess;
  std::filesystem::path artifact;

  TrainFlags train;
  CLI::App *trainCommand =
      app.add_subcommand("train", "Train a compiled model");
  trainCommand->add_option("ARTIFACT", artifact, "What heddle compile wrote")
      ->required()
      ->check(folder());
  addTrainFlags(*trainCommand, train);
  trainCommand->callback([&] {
    if (train.options.output.empty())
      train.options.output = defaultRunFolder(artifact);
    result = runTrain(artifact, train);
  });

  EvaluateFlags evaluate;
  CLI::App *evaluateCommand =
      app.add_subcommand("evaluate", "Loss, logits and gradients of a batch");
  evaluateCommand->add_option("ARTIFACT", artifact, "What heddle compile wrote")
      ->required()
      ->check(folder());
  addEvaluateFlags(*evaluateCommand, evaluate);
  evaluateCommand->callback([&] { result = runEvaluate(artifact, evaluate); });

  CallFlags call;
  CLI::App *callCommand =
      app.add_subcommand("call", "Call a function of a compiled program once");
  callCommand->add_option("ARTIFACT", artifact, "What heddle compile wrote")
      ->required()
      ->check(folder());
  addCallFlags(*callCommand, call);
  callCommand->callback([&] { result = runCall(artifact, call); });

  addTimeKernelsCommand(app, result);
  addLaunchCommand(app, result);
  return parseAndRun(app, argc, argv, result);
}
