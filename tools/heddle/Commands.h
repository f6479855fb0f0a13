//===- Commands.h - The subcommands of heddle -------------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_COMMANDS_H
#define HEDDLE_TOOLS_HEDDLE_COMMANDS_H

#include <CLI/CLI.hpp>

namespace heddle::tools {

/// Each function adds its subcommand to `app`. The chosen subcommand runs while
/// the command line is parsed, and stores its exit code in `result`.
void addImportCommand(CLI::App &app, int &result);
void addCompileCommand(CLI::App &app, int &result);
void addTrainCommand(CLI::App &app, int &result);
void addEvaluateCommand(CLI::App &app, int &result);
void addExplainCommand(CLI::App &app, int &result);
void addInfoCommand(CLI::App &app, int &result);
void addPlanCommand(CLI::App &app, int &result);
void addProfileCommand(CLI::App &app, int &result);
void addReportCommand(CLI::App &app, int &result);
void addSimulateCommand(CLI::App &app, int &result);
void addSolveCommand(CLI::App &app, int &result);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_COMMANDS_H
