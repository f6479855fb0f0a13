//===- Run.h - Running artifacts from the command line ----------*- C++ -*-===//
//
// Training and evaluation of compiled artifacts, with their options. Shared by
// `heddle` and `heddle-run`; uses no LLVM, because `heddle-run` has none.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_COMMON_RUN_H
#define HEDDLE_TOOLS_COMMON_RUN_H

#include "CommandLine.h"
#include "heddle_rt/evaluate.h"
#include "heddle_rt/session.h"
#include "heddle_rt/trainer.h"

#include <filesystem>
#include <string>

namespace heddle::tools {

struct SessionFlags {
  int cores = 0;
  bool times = false;
  std::string trace;
  /// Weights to load, instead of those that the artifact names.
  std::string weights;
  bool noWeights = false;
};

struct TrainFlags {
  runtime::TrainOptions options;
  SessionFlags session;
  bool json = false;
  bool noCheckpoints = false;
};

struct EvaluateFlags {
  std::filesystem::path data;
  runtime::EvaluateOptions options;
  SessionFlags session;
  std::filesystem::path checkpoint; ///< parameters from a run's checkpoint
  bool json = false;
};

void addSessionFlags(CLI::App &app, SessionFlags &flags);
void addTrainFlags(CLI::App &app, TrainFlags &flags);
void addEvaluateFlags(CLI::App &app, EvaluateFlags &flags);

/// The folder that a run of this model writes to when none is chosen.
std::filesystem::path defaultRunFolder(const std::filesystem::path &model);

/// Checks the options and their files before anything expensive. Returns what
/// is wrong, or an empty text.
std::string checkTrainFlags(const TrainFlags &flags);

/// Makes the folders of the run and of its export, as far as flags ask for
/// them. What is wrong with them, so that it does not cost a run; empty if
/// nothing is.
std::string makeTrainFolders(const TrainFlags &flags);

/// Loads an artifact and trains or evaluates; the exit code.
int runTrain(const std::filesystem::path &artifact, const TrainFlags &flags);
int runEvaluate(const std::filesystem::path &artifact,
                const EvaluateFlags &flags);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_RUN_H
