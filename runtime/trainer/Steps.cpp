//===- Steps.cpp - Training steps, and what is reported of them -----------===//

#include "Trainer.h"

#include <algorithm>
#include <cmath>

using namespace heddle::runtime;
using Clock = std::chrono::steady_clock;

/// Reads the rows of a step that ranks of this process have.
Status Trainer::sample(int64_t step) {
  int64_t sequence = tokens->sequence;
  for (int64_t part = 0; part < tables.microBatches; ++part)
    for (auto [first, last] : localRows) {
      int64_t row = part * tokens->rows + first;
      auto rowsOf = [&](size_t input) {
        return idsOf(inputs[input])
            .subspan(static_cast<size_t>(row * sequence),
                     static_cast<size_t>((last - first) * sequence));
      };
      HEDDLE_RT_RETURN_IF_ERROR(sampler->sample(
          step, row, rowsOf(tokens->features), rowsOf(tokens->labels)));
    }
  return Status::success();
}

std::vector<Bytes> Trainer::outputsInto(StepResults &results) const {
  std::vector<Bytes> outputs(
      session.manifest().tables[tables.step].outputs.size());
  outputs[tables.loss] = writableBytesOf(results.loss);
  outputs[tables.gradientNorm] = writableBytesOf(results.gradientNorm);
  outputs[tables.learningRate] = writableBytesOf(results.learningRate);
  return outputs;
}

Status Trainer::runStep() {
  StepResults results;
  auto run = [&]() -> Status {
    HEDDLE_RT_RETURN_IF_ERROR(sampler ? sample(completed)
                                      : readStep(completed));
    std::vector<ConstBytes> values(inputs.begin(), inputs.end());
    return session.run(tables.step, values, outputsInto(results));
  };
  session.resetTimes();
  stepBegin = Clock::now();
  if (Status status = run(); !status.ok())
    return std::move(status).in("step " + std::to_string(completed + 1));
  return finishStep(results);
}

/// Returns the number of steps until something needs the parameters: a
/// checkpoint, an evaluation or the end.
int64_t Trainer::stepsUntilPause() const {
  int64_t count = options.steps - completed;
  for (int64_t each : {options.evaluateEach, options.checkpointEach})
    if (each > 0)
      count = std::min(count, each - completed % each);
  return count;
}

/// Runs steps that overlap: no barrier is at the end of a step.
Status Trainer::runSteps(const std::function<bool()> &stopRequested) {
  StepResults results;
  std::vector<ConstBytes> values(inputs.begin(), inputs.end());
  int64_t first = completed;
  stepBegin = Clock::now();
  Status ofStep;
  Status status = session.runMany(
      tables.step, stepsUntilPause(), values, outputsInto(results),
      [&](int64_t run) -> Expected<bool> {
        if (run > 0) {
          Expected<bool> stopped = isStopped(stopRequested);
          if (!stopped.ok() || *stopped)
            return stopped.ok() ? Expected<bool>(false) : std::move(stopped);
        }
        HEDDLE_RT_RETURN_IF_ERROR(sampler ? sample(first + run)
                                          : readStep(first + run));
        return true;
      },
      [&](int64_t) { return ofStep = finishStep(results); });
  return status.ok() || !ofStep.ok()
             ? status
             : std::move(status).in("step " + std::to_string(completed + 1));
}

/// Counts and reports a step.
Status Trainer::finishStep(const StepResults &results) {
  ++completed;
  lastLoss = results.loss;
  Clock::time_point end = Clock::now();
  double seconds = std::chrono::duration<double>(end - stepBegin).count();
  stepBegin = end;
  smoothSeconds =
      smoothSeconds == 0 ? seconds : 0.9 * smoothSeconds + 0.1 * seconds;

  StepReport report;
  report.step = completed;
  report.steps = options.steps;
  report.loss = results.loss;
  report.gradientNorm = results.gradientNorm;
  report.learningRate = results.learningRate;
  report.tokensPerSecond =
      static_cast<double>(tables.labelsPerStep()) / smoothSeconds;
  report.secondsLeft =
      static_cast<double>(options.steps - completed) * smoothSeconds;
  report.seconds = seconds;
  std::vector<DeviceTimes> stepTimes = session.times();
  report.times = stepTimes.front();
  times.resize(stepTimes.size());
  for (size_t device = 0; device < times.size(); ++device)
    times[device] += stepTimes[device];
  ++timedSteps;
  report.bytesPerDevice = bytesPerDevice;
  observer.step(report);
  if (!std::isfinite(results.loss) && !session.emulatesCompute())
    return error("step " + std::to_string(completed) + ": the loss is " +
                 std::to_string(results.loss) +
                 ", so the parameters are lost; resume from an earlier "
                 "checkpoint with a smaller learning rate or clipping");
  return Status::success();
}
