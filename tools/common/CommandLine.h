//===- CommandLine.h - What all commands parse and report alike -*- C++ -*-===//
//
// Parsing, help, errors and exit codes of `heddle` and `heddle-run`. No LLVM,
// so that `heddle-run` needs none.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_COMMON_COMMANDLINE_H
#define HEDDLE_TOOLS_COMMON_COMMANDLINE_H

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::tools {

/// Exit codes of every command.
enum ExitCode {
  exitSuccess = 0,
  exitFailure = 1,
  exitUsage = 2,
  exitInterrupted = 130 ///< 128 + SIGINT, as shells report it
};

/// Prints `PROGRAM: error: MESSAGE` on standard error; returns exitFailure.
int reportError(std::string_view message);

/// Parses the command line and runs the callback of the chosen subcommand.
/// A bad command line gives exitUsage, an exception of the standard library
/// (no memory, above all) exitFailure.
int parseAndRun(CLI::App &app, int argc, char **argv, int &result);

/// Checks of an option's number, whose message says what was expected. None
/// accepts NaN or infinity.
CLI::Validator positive();
CLI::Validator number(const std::string &expected, const std::string &name,
                      const std::function<bool(double)> &accepts);
CLI::Validator between(double least, double most);
CLI::Validator notNegative();
/// Whole numbers, exactly.
CLI::Validator wholeUpTo(uint64_t most);
/// A folder that exists.
CLI::Validator folder();
CLI::Validator oneOf(std::vector<std::string> names);
/// Of a path or another text that must not be empty; `what` names it.
CLI::Validator notEmpty(const std::string &what);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_COMMANDLINE_H
