//===- CommandLine.h - Command lines of all programs ------------*- C++ -*-===//
//
// Parses command lines and prints help and errors, for `heddle` and
// `heddle-run`. Uses no LLVM, because `heddle-run` has none.
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

/// Exit codes of every command but `solve`, which has its own meaning of 2.
/// README.md lists them.
enum ExitCode {
  exitSuccess = 0,
  exitFailure = 1,
  exitUsage = 2,        ///< `launch` does not try again
  exitInterrupted = 130 ///< 128 + SIGINT, as shells report it
};

/// Prints `PROGRAM: error: MESSAGE` on standard error, or leaves that to the
/// launcher of a job (JobErrors.h). Returns exitFailure.
int reportError(std::string_view message);
/// The same for an error of the command line. Returns exitUsage.
int reportUsage(std::string_view message);

/// Parses the command line, runs the callback of the chosen subcommand, and
/// returns the exit code. A bad command line gives exitUsage. An exception of
/// the standard library (above all for lack of memory) gives exitFailure.
int parseAndRun(CLI::App &app, int argc, char **argv, int &result);

/// Returns the end of the error about an option that a command does not take,
/// such as ", because it decides this"; "" if nothing is known. `value` is the
/// text behind "=", or "".
using OptionHint = std::function<std::string(const std::string &name,
                                             const std::string &value)>;

/// Adds a subcommand with a hint, which is printed if the command has no option
/// of a similar name.
CLI::App *addCommand(CLI::App &app, const std::string &name,
                     const std::string &description, OptionHint hint);

/// Validators of numbers. Their messages say what was expected. All of them
/// refuse NaN and infinity.
CLI::Validator positive();
CLI::Validator number(const std::string &expected, const std::string &name,
                      const std::function<bool(double)> &accepts);
CLI::Validator between(double least, double most);
CLI::Validator notNegative();
/// Accepts integers from 0 to `most`.
CLI::Validator wholeUpTo(uint64_t most);
/// Accepts a folder that exists.
CLI::Validator folder();
CLI::Validator oneOf(std::vector<std::string> names);
/// Refuses an empty text. `what` says in the message what was expected.
CLI::Validator notEmpty(const std::string &what);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_COMMANDLINE_H
