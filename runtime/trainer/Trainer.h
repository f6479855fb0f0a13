//===- Trainer.h - One call of train() --------------------------*- C++ -*-===//

#ifndef HEDDLE_RT_TRAINER_TRAINER_H
#define HEDDLE_RT_TRAINER_TRAINER_H

#include "TableView.h"
#include "heddle_rt/checkpoint.h"
#include "heddle_rt/trainer.h"

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace heddle::runtime {

/// Returns the values of an i32 input.
inline std::span<int32_t> idsOf(std::vector<std::byte> &input) {
  return {reinterpret_cast<int32_t *>(input.data()),
          input.size() / sizeof(int32_t)};
}

struct StepResults {
  float loss = 0, gradientNorm = 0, learningRate = 0;
};

class Trainer {
public:
  Trainer(Session &session, const TrainOptions &options,
          TrainObserver &observer)
      : session(session), options(options), observer(observer) {}

  Status prepare();
  Expected<TrainOutcome> loop(const std::function<bool()> &stopRequested);

private:
  Status openData();
  Status openBatches();
  Status checkRows(const std::filesystem::path &file, int64_t rows) const;
  Status checkBatch(const std::filesystem::path &file) const;
  Expected<std::vector<std::vector<std::byte>>>
  readBatchOf(const std::filesystem::path &file) const;
  Status startState();
  Status checkSteps();
  Status resumeState(const std::filesystem::path &directory);

  Expected<std::filesystem::path>
  chooseCheckpoint(const std::vector<std::filesystem::path> &existing);
  Status
  describeIntact(const Status &why,
                 const std::vector<std::filesystem::path> &existing) const;
  Status sample(int64_t step);
  Status readStep(int64_t step);
  std::vector<Bytes> outputsInto(StepResults &results) const;
  Status runStep();
  Status runSteps(const std::function<bool()> &stopRequested);
  int64_t stepsUntilPause() const;
  Status finishStep(const StepResults &results);
  Expected<bool> isStopped(const std::function<bool()> &stopRequested);
  Status evaluateHeldOut();
  Status addHeldOutWindows(double &lossSum, double &count);
  Status addHeldOutBatches(double &lossSum, double &count);
  Status addEvaluated(std::span<const ConstBytes> arguments, double &lossSum,
                      double &count);
  Status checkpoint();
  TrainingState state() const;

  Session &session;
  const TrainOptions &options;
  TrainObserver &observer;

  TrainingTables tables;
  /// Set if the data are tokens. Otherwise each step trains on the batch of a
  /// file.
  std::optional<TokenInputs> tokens;
  std::optional<TokenData> data;
  std::optional<WindowSampler> sampler;
  std::vector<std::filesystem::path> batches, heldOutBatches;
  /// TrainingState::files of the data.
  std::optional<uint64_t> filesChecksum;
  /// Ranges [first, last) of a micro-batch's rows that this process needs.
  std::vector<std::pair<int64_t, int64_t>> localRows;
  /// The values of each input, of all micro-batches of a step.
  std::vector<std::vector<std::byte>> inputs;

  int64_t completed = 0;     ///< number of steps
  int64_t checkpointed = -1; ///< step of this run's newest checkpoint
  int64_t evaluated = -1;
  std::optional<double> lastLoss;
  size_t bytesPerDevice = 0; ///< most of any device
  double smoothSeconds = 0;  ///< of a step; recent steps weigh most
  int64_t timedSteps = 0;
  std::vector<DeviceTimes> times; ///< of these steps, by device
  /// The end of the previous step, or of a pause after it.
  std::chrono::steady_clock::time_point stepBegin;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_TRAINER_TRAINER_H
