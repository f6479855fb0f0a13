//===- main.cpp - heddle: trains models on several devices ----------------===//

#include "Commands.h"

#include "../common/Launch.h"

using namespace heddle::tools;

int main(int argc, char **argv) {
  CLI::App app("Compiles a model's training step for several devices and runs "
               "it.");
  app.require_subcommand(1);
  app.fallthrough(false);
  int result = exitSuccess;
  addImportCommand(app, result);
  addCompileCommand(app, result);
  addTrainCommand(app, result);
  addEvaluateCommand(app, result);
  addLaunchCommand(app, result);
  addExplainCommand(app, result);
  addInfoCommand(app, result);
  addPlanCommand(app, result);
  addProfileCommand(app, result);
  addReportCommand(app, result);
  addSimulateCommand(app, result);
  addSolveCommand(app, result);
  return parseAndRun(app, argc, argv, result);
}
