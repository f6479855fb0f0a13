//===- Compile.cpp - heddle compile ---------------------------------------===//

#include "../common/Run.h"
#include "Commands.h"
#include "model/Model.h"
#include "plan/PlanModel.h"

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;

/// Returns the default name of an artifact: "gpt2.heddle" for
/// "gpt2/config.json" and for "gpt2.mlir".
static fs::path defaultArtifact(const ModelFlags &model) {
  return defaultRunFolder(model.path).replace_extension(".heddle");
}

void tools::addCompileCommand(CLI::App &app, int &result) {
  CLI::App *command = app.add_subcommand(
      "compile", "Compile a model's training step to an artifact");
  auto flags = std::make_shared<CompileFlags>();
  auto output = std::make_shared<std::string>();
  addModelFlags(*command, flags->model);
  addPlanFlags(*command, *flags);
  addTrainingFlags(*command, *flags);
  addOutputFlags(*command, *flags);
  flags->trainingOptions.push_back(
      command
          ->add_option("--steps", flags->options.training.totalSteps,
                       "Steps of the run, for the cosine schedule")
          ->check(notNegative()));
  flags->trainingOptions.push_back(
      command->add_flag("--gradients", flags->options.training.gradients,
                        "Also the program that returns every gradient"));
  command
      ->add_option("--sanitize", flags->options.sanitize,
                   "Instrument the kernels for a heddle-run that is built with "
                   "this sanitizer: address or thread")
      ->check(oneOf({"address", "thread"}));
  command
      ->add_option("-o,--output", *output,
                   "Folder to write (default: MODEL.heddle); with "
                   "--stop-after, the file (default: standard output)")
      ->check(notEmpty("a folder or file"));
  command->callback([flags, output, &result] {
    if (flags->model.path == "-" &&
        ((output->empty() && flags->stopAfter.empty()) ||
         flags->plan == autoPlan)) {
      reportError("expected --output, and another plan than 'auto', for a "
                  "program on standard input");
      result = exitUsage;
      return;
    }
    flags->printTo = *output;
    bool compiled = false;
    result = compileModel(*flags,
                          output->empty() ? defaultArtifact(flags->model)
                                          : fs::path(*output),
                          compiled, /*report=*/true);
  });
}
