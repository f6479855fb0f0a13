//===- Run.h - Running artifacts from the command line ----------*- C++ -*-===//
//
// Trains and evaluates compiled artifacts, with options from the command line.
// Shared by `heddle` and `heddle-run`. Uses no LLVM, because `heddle-run` has
// none.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_COMMON_RUN_H
#define HEDDLE_TOOLS_COMMON_RUN_H

#include "CommandLine.h"
#include "heddle_rt/evaluate.h"
#include "heddle_rt/session.h"
#include "heddle_rt/trainer.h"

#include <filesystem>
#include <functional>
#include <string>

namespace heddle::tools {

struct EmulateFlags {
  std::string cluster;  ///< to emulate; empty: none
  bool compute = false; ///< emulate the cluster's devices too
  /// Reads the cluster.
  std::function<runtime::Expected<runtime::NetworkInfo>(const std::string &)>
      readNetwork = runtime::readNetwork;

  /// Reads the cluster, if one is named, into the options.
  runtime::Status apply(runtime::SessionOptions &options) const;
};

/// Joins the job that the environment describes, and sets the options for it.
/// Does nothing if it describes none.
runtime::Status joinJob(double hangTimeout, runtime::SessionOptions &options);

/// Reports an error of a process of a job, and tells the other processes.
/// `job` may be null. Returns exitFailure.
int reportError(runtime::Job *job, std::string_view message);

struct SessionFlags {
  int cores = 0;
  bool times = false;
  std::string trace; ///< a file to write; empty: none
  int traceSteps = 3;
  /// If not empty, loaded instead of the weights that the artifact names.
  std::string weights;
  bool noWeights = false;
  double hangTimeout = 60; ///< seconds; in a job of several processes
  EmulateFlags emulate;
};

struct TrainFlags {
  runtime::TrainOptions options;
  SessionFlags session;
  bool json = false;
  bool noCheckpoints = false;

  bool writesCheckpoints() const {
    return !noCheckpoints && !session.emulate.compute;
  }
};

struct EvaluateFlags {
  std::filesystem::path data;
  runtime::EvaluateOptions options;
  SessionFlags session;
  std::filesystem::path checkpoint; ///< parameters from a run's checkpoint
  bool json = false;
};

/// Adds `--emulate` and `--emulate-compute`. Returns the latter, so that the
/// caller can make it exclude options that write computed values.
CLI::Option *addEmulateFlags(CLI::App &app, EmulateFlags &flags);
/// Adds the flags of a session. Returns `--emulate-compute`.
CLI::Option *addSessionFlags(CLI::App &app, SessionFlags &flags);
void addTrainFlags(CLI::App &app, TrainFlags &flags);
void addEvaluateFlags(CLI::App &app, EvaluateFlags &flags);

/// Rows and length of the token sequences of a batch.
struct TokenShape {
  int64_t rows = 0, sequence = 0;
};

/// Reads the shape of a batch's tensor `tokens`, which imported models have.
runtime::Expected<TokenShape>
readTokenShape(const std::filesystem::path &batch);

/// Returns the default folder of a model's run, e.g. "gpt2.run".
std::filesystem::path defaultRunFolder(const std::filesystem::path &model);

/// Makes a training resume if `launch` starts it again and it has checkpoints.
void resumeAfterFailure(TrainFlags &flags);

/// Checks the options and their files. Returns an error text, or an empty text.
/// Called before anything slow.
std::string checkTrainFlags(const TrainFlags &flags);

/// Makes the folders of the run and of its export, if flags ask for them, and
/// locks the run's folder until this process ends. Returns an error text, or an
/// empty text. Called early, so that a folder that cannot be made does not cost
/// a run.
std::string makeTrainFolders(const TrainFlags &flags);
/// Returns whether this process has locked a run's folder.
bool holdsRunFolder();

/// Load an artifact and train or evaluate it. Return the exit code. In a job,
/// process 0 names the artifact; the others' path is ignored.
int runTrain(const std::filesystem::path &artifact, const TrainFlags &flags);
int runEvaluate(const std::filesystem::path &artifact,
                const EvaluateFlags &flags);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_RUN_H
