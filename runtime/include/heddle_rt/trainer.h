//===- trainer.h - The training loop over a loaded artifact -----*- C++ -*-===//
//
// Runs the tables of a training artifact: `step`, and `evaluate` on the
// held-out tail of the data. Writes checkpoints and continues from them with
// the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_TRAINER_H
#define HEDDLE_RT_TRAINER_H

#include "heddle_rt/session.h"
#include "heddle_rt/status.h"
#include "heddle_rt/token_data.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle::runtime {

struct TrainOptions {
  /// One of: a token file; one batch (.safetensors), as `evaluate` reads it; a
  /// folder of such batches. With one batch, every step trains on it, and
  /// nothing is held out. The batches of a folder follow each other by name,
  /// again and again; the last ones are held out. The types and shapes of all
  /// files are checked at first. A run resumes only with files of the same
  /// names and sizes; what they hold is not compared.
  std::filesystem::path data;
  std::optional<TokenFormat> format; ///< unset: guessed by name and vocabulary
  double heldOutFraction = 0.1;

  int64_t steps = 0;          ///< total, including the steps before a resume
  int64_t evaluateEach = 100; ///< in steps; 0: only at the end
  /// Windows of the held-out tail, or batches of a folder; 0: all of them.
  int64_t evaluateWindows = 0;

  std::filesystem::path output; ///< the run's folder; empty: no checkpoints
  int64_t checkpointEach = 100; ///< in steps; 0: only at the end
  int64_t keepCheckpoints = 3;
  bool resume = false; ///< continue from the newest checkpoint in `output`
  /// If the newest checkpoint is damaged, continue from the newest intact one.
  bool fallBack = false;
  std::filesystem::path from;     ///< start from this checkpoint's variables
  std::filesystem::path weights;  ///< start from these weights
  std::filesystem::path exportTo; ///< write weights here at the end
  bool checkReplicas = false;     ///< compare the replicas at each checkpoint
};

struct StepReport {
  int64_t step = 0; ///< completed steps, this one included
  int64_t steps = 0;
  float loss = 0; ///< mean over the labels of the step, in nats
  float gradientNorm = 0;
  float learningRate = 0;
  double tokensPerSecond = 0;
  double secondsLeft = 0;
  double seconds = 0;        ///< time of this step
  DeviceTimes times;         ///< of this step on the first device
  size_t bytesPerDevice = 0; ///< memory of the device that holds most
};

/// Receives the progress of a training. Called on the thread that trains.
class TrainObserver {
public:
  virtual ~TrainObserver() = default;
  /// Called before the first step with the memory of the device that holds
  /// most.
  virtual void memory(const DeviceMemory &memory) {}
  virtual void step(const StepReport &report) = 0;
  /// Called after `step` steps with the mean loss over `labels` held-out
  /// labels.
  virtual void heldOut(int64_t step, double loss, int64_t labels) = 0;
  virtual void checkpoint(int64_t step, const std::filesystem::path &path) = 0;
  virtual void note(const std::string &text) = 0;
};

struct TrainOutcome {
  int64_t step = 0; ///< completed steps
  bool interrupted = false;
  int64_t timedSteps = 0; ///< the steps of this call
  /// Their times together, by device. Evaluations and checkpoints between them
  /// do not count.
  std::vector<DeviceTimes> times;
};

/// Returns an observer that shows nothing.
std::unique_ptr<TrainObserver> createSilence();

/// Trains until `options.steps` steps are done, or until `stopRequested`
/// returns true after a step. In both cases saves the state in
/// `options.output`. The processes of a job train together; each shows its own
/// progress. After an error, such as a loss that is not finite, the
/// older checkpoints remain.
Expected<TrainOutcome> train(Session &session, const TrainOptions &options,
                             TrainObserver &observer,
                             const std::function<bool()> &stopRequested);

/// Returns true if `data` is a batch or a folder of batches rather than a token
/// file.
bool isBatchData(const std::filesystem::path &data);

/// Returns the files of a folder of batches, by name; or `data`, a batch.
Expected<std::vector<std::filesystem::path>>
listBatches(const std::filesystem::path &data);

/// Returns the folder of a run's checkpoints.
std::filesystem::path checkpointFolder(const std::filesystem::path &output);

/// The output format of progress.
enum class ProgressStyle {
  Terminal, ///< one line that is rewritten
  Lines,    ///< one line every few steps
  JSON      ///< one JSON object for each step
};

/// Returns an observer that shows progress on standard output.
std::unique_ptr<TrainObserver> createProgress(ProgressStyle style);

/// Returns Terminal if standard output is a terminal, otherwise Lines.
ProgressStyle defaultProgressStyle();

} // namespace heddle::runtime

#endif // HEDDLE_RT_TRAINER_H
