//===- Run.h - Running artifacts from the command line ----------*- C++ -*-===//
//
// What `heddle` and `heddle-run` share: the options of training and evaluating
// a compiled artifact, and doing it. No LLVM, so that `heddle-run` needs none.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_COMMON_RUN_H
#define HEDDLE_TOOLS_COMMON_RUN_H

#include "heddle_rt/evaluate.h"
#include "heddle_rt/session.h"
#include "heddle_rt/trainer.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

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

/// Checks of an option's number, whose message says what was expected. Neither
/// accepts NaN or infinity.
CLI::Validator positive();
CLI::Validator number(const std::string &expected, const std::string &name,
                      const std::function<bool(double)> &accepts);
CLI::Validator between(double least, double most);
CLI::Validator notNegative();
/// Whole numbers, exactly.
CLI::Validator wholeUpTo(uint64_t most);
/// Of a path or another text that must not be empty; `what` names it.
CLI::Validator folder();
CLI::Validator oneOf(std::vector<std::string> names);
CLI::Validator notEmpty(const std::string &what);

struct SessionFlags {
  int cores = 0;
  bool times = false;
  std::string trace;
  /// Weights to load, instead of those that the artifact names.
  std::string weights;
  bool noWeights = false;
};

struct TrainFlags {
  rt::TrainOptions options;
  SessionFlags session;
  bool json = false;
  bool noCheckpoints = false;
};

struct EvaluateFlags {
  std::filesystem::path data;
  rt::EvaluateOptions options;
  SessionFlags session;
  std::filesystem::path checkpoint; ///< parameters from a run's checkpoint
  bool json = false;
};

void addSessionFlags(CLI::App &app, SessionFlags &flags);
void addTrainFlags(CLI::App &app, TrainFlags &flags);
void addEvaluateFlags(CLI::App &app, EvaluateFlags &flags);

/// The folder that a run of this model writes to when none is chosen.
std::filesystem::path defaultRunFolder(const std::filesystem::path &model);

/// What is wrong with the options or their files, before anything expensive;
/// empty if nothing is.
std::string checkTrainFlags(const TrainFlags &flags);

/// Loads an artifact and trains or evaluates; the exit code.
int runTrain(const std::filesystem::path &artifact, const TrainFlags &flags);
int runEvaluate(const std::filesystem::path &artifact,
                const EvaluateFlags &flags);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_RUN_H
