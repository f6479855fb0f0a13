//===- Trainer.cpp - The training loop over a loaded artifact -------------===//

#include "Trainer.h"
#include "Batch.h"

#include "heddle_rt/checkpoint.h"
#include "heddle_rt/evaluate.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

namespace fs = std::filesystem;
using namespace heddle::runtime;

fs::path heddle::runtime::checkpointFolder(const fs::path &output) {
  return output / "checkpoints";
}

//===----------------------------------------------------------------------===//
// Before the first step
//===----------------------------------------------------------------------===//

Status Trainer::prepare() {
  auto found = TrainingTables::find(session.manifest());
  if (!found.ok())
    return std::move(found).status();
  tables = *std::move(found);
  if (session.emulatesCompute()) {
    if (!options.output.empty() || !options.exportTo.empty())
      return error("expected no folder to write to: computation is emulated, "
                   "so the parameters mean nothing");
    observer.note("computation is emulated: losses and all other numbers but "
                  "times are meaningless, and no checkpoint is written");
  }
  HEDDLE_RT_RETURN_IF_ERROR(openData());
  HEDDLE_RT_RETURN_IF_ERROR(startState());
  // No process writes checkpoints before all have looked for them.
  if (Job *job = session.job())
    HEDDLE_RT_RETURN_IF_ERROR(job->any(false).status());
  return checkSteps();
}

Status Trainer::openData() {
  if (isBatchData(options.data))
    return openBatches();
  auto found = findTokenInputs(session.manifest(), tables.inputs);
  if (!found.ok())
    return std::move(found).status();
  tokens = *found;
  for (const PortInfo &input : tables.inputs)
    inputs.emplace_back(input.bytes() *
                        static_cast<size_t>(tables.microBatches));
  auto opened =
      TokenData::open(options.data, options.format, tokens->vocabulary);
  if (!opened.ok())
    return std::move(opened).status();
  data.emplace(*std::move(opened));
  filesChecksum = data->checksumOfParts();
  auto created = WindowSampler::create(*data, tokens->sequence,
                                       options.heldOutFraction, session.seed());
  if (!created.ok())
    return std::move(created).status();
  sampler.emplace(*std::move(created));
  localRows = session.localRows(tables.step, tokens->features);
  if (localRows != session.localRows(tables.step, tokens->labels))
    localRows = {{0, tokens->rows}};
  return Status::success();
}

Status Trainer::startState() {
  std::vector<fs::path> existing;
  if (!options.output.empty())
    existing = listCheckpoints(checkpointFolder(options.output));
  if (options.resume) {
    if (options.output.empty())
      return error("cannot resume: no run folder is given");
    if (existing.empty())
      return error("cannot resume: no checkpoint in '" +
                   checkpointFolder(options.output).string() + "'");
    auto chosen = chooseCheckpoint(existing);
    if (!chosen.ok())
      return std::move(chosen).status();
    if (!options.weights.empty())
      observer.note("the weights in " + options.weights.string() +
                    " are not read: a resumed run has its own");
    Status status = resumeState(*chosen);
    return status.ok() ? status : describeIntact(status, existing);
  }
  if (!existing.empty())
    return error("'" + options.output.string() +
                 "' already holds a run, with " +
                 std::to_string(existing.size()) +
                 " checkpoint(s); resume it, or choose another folder");
  if (!options.from.empty()) {
    HEDDLE_RT_RETURN_IF_ERROR(loadCheckpoint(session, options.from));
    auto step = tables.readStep(session);
    if (!step.ok())
      return std::move(step).status();
    completed = *step;
    observer.note("starting from " + options.from.string() + " after step " +
                  std::to_string(completed));
  } else if (!options.weights.empty()) {
    HEDDLE_RT_RETURN_IF_ERROR(loadWeights(session, options.weights));
    observer.note("starting from the weights in " + options.weights.string());
  }
  return Status::success();
}

/// Returns the checkpoint to resume from, which is the same for all processes.
Expected<fs::path>
Trainer::chooseCheckpoint(const std::vector<fs::path> &existing) {
  fs::path chosen = existing.back();
  if (options.fallBack && (!session.job() || session.job()->process() == 0)) {
    auto intact = std::find_if(
        existing.rbegin(), existing.rend(),
        [](const fs::path &each) { return verifyCheckpoint(each).ok(); });
    if (intact != existing.rend())
      chosen = *intact;
    if (chosen != existing.back())
      observer.note("the newest checkpoint is damaged: " +
                    std::string(verifyCheckpoint(existing.back()).message()));
  }
  if (!session.job())
    return chosen;
  auto agreed = session.job()->fromFirst(chosen.string());
  HEDDLE_RT_RETURN_IF_ERROR(agreed.status());
  return fs::path(*agreed);
}

/// If the newest checkpoint is damaged, adds to the error which one is intact.
Status Trainer::describeIntact(const Status &why,
                               const std::vector<fs::path> &existing) const {
  std::string text(why.message());
  if (verifyCheckpoint(existing.back()).ok())
    return why;
  for (auto each = existing.rbegin(); each != existing.rend(); ++each)
    if (verifyCheckpoint(*each).ok())
      return error(text + "; the newest intact checkpoint is '" +
                   each->string() + "': --fall-back resumes from it");
  return error(text + "; no other checkpoint of the run is intact");
}

/// Reports that no steps are left, so that the call does not look like a
/// training: a note if a resumed run is complete, otherwise an error. Zero
/// steps from a checkpoint are allowed: the run writes the same state anew with
/// this plan.
Status Trainer::checkSteps() {
  bool rewrites = options.steps == 0 && !options.from.empty();
  if (completed == 0 || completed < options.steps || rewrites)
    return Status::success();
  std::string found = "the checkpoint is after step " +
                      std::to_string(completed) +
                      ", and the run's number of steps, those included, is " +
                      std::to_string(options.steps);
  std::string remedy =
      "; ask for more than " + std::to_string(completed) + " steps to train on";
  if (!options.resume || completed > options.steps)
    return error("nothing to train: " + found + remedy);
  observer.note("nothing left to train: " + found + remedy);
  return Status::success();
}

Status Trainer::resumeState(const fs::path &directory) {
  auto saved = readState(directory);
  if (!saved.ok())
    return std::move(saved).status();
  TrainingState now = state();
  auto refuse = [&](const std::string &what, const std::string &remedy) {
    return error("cannot resume from '" + directory.string() + "': " + what +
                 ", so the run would not be the same; give " + remedy +
                 ", or start a new run from this checkpoint (--from) in "
                 "another folder (--output)");
  };
  // `option` sets the value.
  auto differs = [&](const std::string &what, const auto &was, const auto &is,
                     const std::string &option) -> Status {
    if (was == is)
      return Status::success();
    std::ostringstream text, remedy;
    text << what << " was " << was << " and is now " << is;
    remedy << option << " " << was;
    return refuse(text.str(), remedy.str());
  };
  HEDDLE_RT_RETURN_IF_ERROR(
      differs("the seed", saved->seed, now.seed, "--seed"));
  if (saved->dataTokens != now.dataTokens)
    return refuse("the number of tokens of the data was " +
                      std::to_string(saved->dataTokens) + " and is now " +
                      std::to_string(now.dataTokens),
                  "--data as it was ('" + saved->data + "')");
  if (saved->rowsPerStep != now.rowsPerStep) {
    std::string rows = saved->rowsPerStep % tables.microBatches == 0
                           ? "--batch " + std::to_string(saved->rowsPerStep /
                                                         tables.microBatches)
                           : "--batch and --micro-batches with a product of " +
                                 std::to_string(saved->rowsPerStep);
    return refuse("the number of rows a step was " +
                      std::to_string(saved->rowsPerStep) + " and is now " +
                      std::to_string(now.rowsPerStep),
                  rows);
  }
  HEDDLE_RT_RETURN_IF_ERROR(
      differs("the sequence length", saved->sequence, now.sequence, "--seq"));
  HEDDLE_RT_RETURN_IF_ERROR(differs("the held-out fraction",
                                    saved->heldOutFraction, now.heldOutFraction,
                                    "--held-out"));
  if (saved->files && now.files && *saved->files != *now.files)
    return refuse(data ? "the text of '" + options.data.string() +
                             "' is another one"
                       : "the names or sizes of the files in '" +
                             options.data.string() + "' have changed",
                  "--data as it was");

  HEDDLE_RT_RETURN_IF_ERROR(loadCheckpoint(session, directory));
  auto step = tables.readStep(session);
  if (!step.ok())
    return std::move(step).status();
  if (*step != saved->step)
    return error("checkpoint '" + directory.string() +
                 "': state.json says step " + std::to_string(saved->step) +
                 ", but the step counter is " + std::to_string(*step));
  completed = checkpointed = *step;
  observer.note("resuming after step " + std::to_string(completed));
  if (saved->program && saved->program != now.program)
    observer.note("the program is not the one that wrote the checkpoint (other "
                  "options, another plan or compiler): the bits will not be "
                  "those of a run that was never interrupted");
  return Status::success();
}

TrainingState Trainer::state() const {
  TrainingState state;
  state.step = completed;
  state.seed = session.seed();
  state.data = options.data.string();
  state.dataTokens =
      data ? data->size()
           : tables.labelsPerStep() *
                 static_cast<int64_t>(batches.size() + heldOutBatches.size());
  state.files = filesChecksum;
  state.rowsPerStep = tables.rowsPerStep();
  state.sequence = tables.labelsPerStep() / tables.rowsPerStep();
  state.heldOutFraction = options.heldOutFraction;
  state.loss = lastLoss;
  state.program = session.fingerprint();
  return state;
}

//===----------------------------------------------------------------------===//
// Pauses between steps, and the loop
//===----------------------------------------------------------------------===//

Status Trainer::evaluateHeldOut() {
  // Emulated computation has no loss.
  if (!tables.evaluate || evaluated == completed || session.emulatesCompute())
    return Status::success();
  // The mean is over all labels, so sums of losses and counts of labels are
  // added.
  double lossSum = 0, count = 0;
  HEDDLE_RT_RETURN_IF_ERROR(sampler ? addHeldOutWindows(lossSum, count)
                                    : addHeldOutBatches(lossSum, count));
  if (count == 0)
    return Status::success();
  evaluated = completed;
  double loss = lossSum / count;
  observer.heldOut(completed, loss, static_cast<int64_t>(count));
  // After the last update no training loss follows, so only the held-out loss
  // can show that the update went wrong.
  if (!std::isfinite(loss))
    return error("after step " + std::to_string(completed) +
                 ": the held-out loss is " + std::to_string(loss) +
                 ", so the parameters are lost; resume from an earlier "
                 "checkpoint with a smaller learning rate or clipping");
  return Status::success();
}

/// Adds the sum of the losses of one micro-batch, and its number of labels.
Status Trainer::addEvaluated(std::span<const ConstBytes> arguments,
                             double &lossSum, double &count) {
  float batchSum = 0, batchCount = 0;
  std::vector<Bytes> results(
      session.manifest().tables[*tables.evaluate].outputs.size());
  results[tables.lossSum] = writableBytesOf(batchSum);
  results[tables.labelCount] = writableBytesOf(batchCount);
  HEDDLE_RT_RETURN_IF_ERROR(session.run(*tables.evaluate, arguments, results));
  lossSum += batchSum;
  count += batchCount;
  return Status::success();
}

Status Trainer::addHeldOutWindows(double &lossSum, double &count) {
  int64_t windows = sampler->numHeldOutWindows();
  if (options.evaluateWindows > 0)
    windows = std::min(windows, options.evaluateWindows);
  std::vector<std::vector<std::byte>> values;
  for (const PortInfo &input : tables.inputs)
    values.emplace_back(input.bytes());
  std::span<int32_t> features = idsOf(values[tokens->features]),
                     labels = idsOf(values[tokens->labels]);
  std::vector<ConstBytes> arguments(values.begin(), values.end());
  for (int64_t first = 0; first < windows; first += tokens->rows) {
    HEDDLE_RT_RETURN_IF_ERROR(sampler->heldOut(first, features, labels));
    if (int64_t rows = windows - first; rows < tokens->rows)
      std::ranges::fill(labels.subspan(rows * tokens->sequence), ignoredLabel);
    HEDDLE_RT_RETURN_IF_ERROR(addEvaluated(arguments, lossSum, count));
  }
  return Status::success();
}

Status Trainer::checkpoint() {
  if (options.checkReplicas)
    HEDDLE_RT_RETURN_IF_ERROR(session.checkReplicas());
  if (options.output.empty() || checkpointed == completed)
    return Status::success();
  fs::path folder = checkpointFolder(options.output);
  fs::path directory = checkpointPath(folder, completed);
  HEDDLE_RT_RETURN_IF_ERROR(saveCheckpoint(session, state(), directory));
  checkpointed = completed;
  if (options.keepCheckpoints > 0 &&
      (!session.job() || session.job()->process() == 0))
    pruneCheckpoints(folder, options.keepCheckpoints);
  observer.checkpoint(completed, directory);
  return Status::success();
}

/// Returns true if a process of the job is asked to stop.
Expected<bool> Trainer::isStopped(const std::function<bool()> &stopRequested) {
  bool mine = stopRequested();
  return session.job() ? session.job()->any(mine) : Expected<bool>(mine);
}

Expected<TrainOutcome>
Trainer::loop(const std::function<bool()> &stopRequested) {
  std::vector<DeviceMemory> memory = session.memory();
  DeviceMemory most = *std::ranges::max_element(
      memory, {}, [](const DeviceMemory &device) { return device.total(); });
  observer.memory(most);
  bytesPerDevice = most.total();

  while (completed < options.steps) {
    auto stopped = isStopped(stopRequested);
    if (!stopped.ok())
      return std::move(stopped).status();
    if (*stopped)
      break;
    HEDDLE_RT_RETURN_IF_ERROR(tables.hasBarrier ? runStep()
                                                : runSteps(stopRequested));

    bool last = completed == options.steps;
    if (!last && options.evaluateEach > 0 &&
        completed % options.evaluateEach == 0)
      HEDDLE_RT_RETURN_IF_ERROR(evaluateHeldOut());
    if (!last && options.checkpointEach > 0 &&
        completed % options.checkpointEach == 0)
      HEDDLE_RT_RETURN_IF_ERROR(checkpoint());
  }

  // This also saves an interrupted run, so that no work is lost.
  HEDDLE_RT_RETURN_IF_ERROR(checkpoint());
  TrainOutcome outcome{completed, completed < options.steps, timedSteps, times};
  if (outcome.interrupted)
    return outcome;
  HEDDLE_RT_RETURN_IF_ERROR(evaluateHeldOut());
  if (!options.exportTo.empty()) {
    HEDDLE_RT_RETURN_IF_ERROR(exportWeights(session, options.exportTo,
                                            modelConfig(session.manifest())));
    observer.note("weights are in " + options.exportTo.string());
  }
  return outcome;
}

Expected<TrainOutcome>
heddle::runtime::train(Session &session, const TrainOptions &options,
                       TrainObserver &observer,
                       const std::function<bool()> &stopRequested) {
  Trainer trainer(session, options, observer);
  HEDDLE_RT_RETURN_IF_ERROR(trainer.prepare());
  return trainer.loop(stopRequested);
}
