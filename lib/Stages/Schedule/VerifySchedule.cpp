//===- VerifySchedule.cpp - Checks and measures schedules of pipelines ----===//

#include "heddle/Stages/StageSchedule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>

using namespace heddle;

static char getLetter(StageWork work) {
  return work == StageWork::Forward    ? 'F'
         : work == StageWork::Backward ? 'B'
                                       : 'W';
}

std::string StageTask::getName() const {
  return (llvm::Twine(getLetter(work)) + llvm::Twine(stage) + "." +
          llvm::Twine(microBatch))
      .str();
}

//===----------------------------------------------------------------------===//
// Figures
//===----------------------------------------------------------------------===//

double StageSchedule::getMakespan() const {
  double begin = 0, end = 0;
  bool isFirst = true;
  for (const auto &list : devices)
    for (const StageTask &task : list) {
      begin = isFirst ? task.begin : std::min(begin, task.begin);
      end = std::max(end, task.end);
      isFirst = false;
    }
  return end - begin;
}

double StageSchedule::getSpan() const {
  double span = 0;
  for (const auto &list : devices)
    if (!list.empty())
      span = std::max(span, list.back().end - list.front().begin);
  return span;
}

/// Returns the largest difference between the numbers of tasks of two kinds in
/// the beginnings of a list.
static int64_t getMostBetween(llvm::ArrayRef<StageTask> list, StageWork first,
                              StageWork second) {
  int64_t count = 0, most = 0;
  for (const StageTask &task : list) {
    count += (task.work == first) - (task.work == second);
    most = std::max(most, count);
  }
  return most;
}

int64_t StageSchedule::getInFlight(int64_t device) const {
  return getMostBetween(devices[device], StageWork::Forward,
                        StageWork::Backward);
}

int64_t StageSchedule::getPendingWeights(int64_t device) const {
  return splitsBackward ? getMostBetween(devices[device], StageWork::Backward,
                                         StageWork::BackwardWeights)
                        : 0;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

namespace {
class Verifier {
public:
  Verifier(StageSchedule &schedule, int64_t mostInFlight)
      : schedule(schedule), mostInFlight(mostInFlight) {}

  llvm::Error run();

private:
  /// Returns the number of a task among all that the schedule may have.
  size_t getIndex(const StageTask &task) const {
    return (size_t(task.work) * schedule.getNumStages() + task.stage) *
               schedule.microBatches +
           task.microBatch;
  }

  llvm::Error error(size_t device, size_t entry, const llvm::Twine &what) {
    return llvm::createStringError("device " + llvm::Twine(device) +
                                   ", entry " + llvm::Twine(entry) + ": " +
                                   what);
  }
  llvm::Error checkTask(size_t device, size_t entry);
  llvm::Error checkOrder(size_t device);
  llvm::Error checkCount();
  llvm::Error setTimes();
  /// Returns the tasks that must have ended before one begins.
  llvm::SmallVector<StageTask, 2> getInputs(const StageTask &task) const;

  StageSchedule &schedule;
  int64_t mostInFlight;
  /// By task: the device and the entry.
  std::vector<std::optional<std::pair<size_t, size_t>>> places;
};
} // namespace

llvm::Error Verifier::checkTask(size_t device, size_t entry) {
  const StageTask &task = schedule.devices[device][entry];
  if (task.stage < 0 || task.stage >= schedule.getNumStages())
    return error(device, entry,
                 task.getName() + ": expected a stage below " +
                     llvm::Twine(schedule.getNumStages()) + ", got " +
                     llvm::Twine(task.stage));
  if (task.microBatch < 0 || task.microBatch >= schedule.microBatches)
    return error(device, entry,
                 task.getName() + ": expected a micro-batch below " +
                     llvm::Twine(schedule.microBatches) + ", got " +
                     llvm::Twine(task.microBatch));
  if (schedule.deviceOf[task.stage] != int64_t(device))
    return error(device, entry,
                 task.getName() + ": expected stage " +
                     llvm::Twine(task.stage) + " on device " +
                     llvm::Twine(schedule.deviceOf[task.stage]) +
                     ", which has its variables");
  if (task.work == StageWork::BackwardWeights && !schedule.splitsBackward)
    return error(device, entry,
                 task.getName() +
                     ": expected no pass for weights alone, because "
                     "backward passes are whole here");
  auto &place = places[getIndex(task)];
  if (place)
    return error(device, entry,
                 task.getName() + " is there already, as entry " +
                     llvm::Twine(place->second));
  place = {device, entry};
  return llvm::Error::success();
}

/// Checks that each pass of a device stands behind the passes of the same
/// device that it needs, that the memory limit holds, and that the last stage's
/// two passes of a micro-batch are together.
llvm::Error Verifier::checkOrder(size_t device) {
  const std::vector<StageTask> &list = schedule.devices[device];
  int64_t inFlight = 0;
  for (size_t entry = 0; entry < list.size(); ++entry) {
    const StageTask &task = list[entry];
    for (const StageTask &input : getInputs(task))
      if (auto [other, place] = *places[getIndex(input)];
          other == device && place > entry)
        return error(device, entry,
                     task.getName() + " reads what " + input.getName() +
                         " makes: expected " + input.getName() +
                         " before it, got it as entry " + llvm::Twine(place));
    inFlight +=
        (task.work == StageWork::Forward) - (task.work == StageWork::Backward);
    if (mostInFlight > 0 && inFlight > mostInFlight)
      return error(device, entry,
                   task.getName() + " is the forward pass number " +
                       llvm::Twine(inFlight) + " in flight: expected at most " +
                       llvm::Twine(mostInFlight) +
                       ", the memory's limit; run a backward pass before");
    if (task.work != StageWork::Forward ||
        task.stage != schedule.getNumStages() - 1)
      continue;
    bool isFollowed = entry + 1 < list.size() &&
                      list[entry + 1].work == StageWork::Backward &&
                      list[entry + 1].stage == task.stage &&
                      list[entry + 1].microBatch == task.microBatch;
    if (!isFollowed)
      return error(device, entry,
                   task.getName() +
                       ": expected the backward pass of the last stage right "
                       "behind its forward pass, because both are one program");
  }
  return llvm::Error::success();
}

llvm::Error Verifier::checkCount() {
  for (int64_t stage = 0; stage < schedule.getNumStages(); ++stage)
    for (int64_t number = 0; number < schedule.microBatches; ++number)
      for (StageWork work : {StageWork::Forward, StageWork::Backward,
                             StageWork::BackwardWeights}) {
        if (work == StageWork::BackwardWeights && !schedule.splitsBackward)
          continue;
        if (StageTask task{work, stage, number}; !places[getIndex(task)])
          return llvm::createStringError(
              "device " + llvm::Twine(schedule.deviceOf[stage]) +
              ": expected " + task.getName() + ", got no such entry");
      }
  return llvm::Error::success();
}

llvm::SmallVector<StageTask, 2>
Verifier::getInputs(const StageTask &task) const {
  if (task.work == StageWork::BackwardWeights)
    return {{StageWork::Backward, task.stage, task.microBatch}};
  if (task.work == StageWork::Forward) {
    if (task.stage == 0)
      return {};
    return {{StageWork::Forward, task.stage - 1, task.microBatch}};
  }
  llvm::SmallVector<StageTask, 2> inputs = {
      {StageWork::Forward, task.stage, task.microBatch}};
  if (task.stage + 1 < schedule.getNumStages())
    inputs.push_back({StageWork::Backward, task.stage + 1, task.microBatch});
  return inputs;
}

/// Sets the begin and end of each task. Emits an error if devices wait for each
/// other for ever.
llvm::Error Verifier::setTimes() {
  std::vector<std::optional<double>> ends(places.size());
  std::vector<size_t> next(schedule.devices.size());
  std::vector<double> freeAt(schedule.devices.size());
  auto timeOf = [&](const StageTask &task) {
    const StageTimes &times = schedule.times[task.stage];
    if (task.work == StageWork::Forward)
      return times.forward;
    if (task.work == StageWork::BackwardWeights)
      return times.weights;
    return times.backward + (schedule.splitsBackward ? 0 : times.weights);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t device = 0; device < next.size(); ++device)
      while (next[device] < schedule.devices[device].size()) {
        StageTask &task = schedule.devices[device][next[device]];
        double begin = freeAt[device];
        bool isReady = true;
        for (const StageTask &input : getInputs(task)) {
          const std::optional<double> &end = ends[getIndex(input)];
          isReady &= end.has_value();
          if (isReady)
            begin = std::max(begin, *end);
        }
        if (!isReady)
          break;
        task.begin = begin;
        task.end = freeAt[device] = begin + timeOf(task);
        ends[getIndex(task)] = task.end;
        ++next[device];
        moved = true;
      }
  }
  for (size_t device = 0; device < next.size(); ++device) {
    if (next[device] == schedule.devices[device].size())
      continue;
    const StageTask &task = schedule.devices[device][next[device]];
    for (const StageTask &input : getInputs(task))
      if (!ends[getIndex(input)]) {
        auto [other, entry] = *places[getIndex(input)];
        return error(device, next[device],
                     task.getName() + " waits for ever for " + input.getName() +
                         ", entry " + llvm::Twine(entry) + " of device " +
                         llvm::Twine(other));
      }
  }
  return llvm::Error::success();
}

llvm::Error Verifier::run() {
  size_t entries = 0;
  for (const auto &list : schedule.devices)
    entries += list.size();
  // A table of one's own may name any number of micro-batches. Memory is for as
  // many as have entries.
  auto stages = size_t(schedule.getNumStages());
  if (stages > 0 && size_t(schedule.microBatches) > entries / stages)
    return llvm::createStringError(
        "expected a forward pass of each of " +
        llvm::Twine(schedule.getNumStages()) + " stages for each of " +
        llvm::Twine(schedule.microBatches) + " micro-batches, got " +
        llvm::Twine(entries) + " entries in all");
  places.resize(3 * stages * schedule.microBatches);
  for (size_t device = 0; device < schedule.devices.size(); ++device)
    for (size_t entry = 0; entry < schedule.devices[device].size(); ++entry)
      if (llvm::Error problem = checkTask(device, entry))
        return problem;
  if (llvm::Error problem = checkCount())
    return problem;
  for (size_t device = 0; device < schedule.devices.size(); ++device)
    if (llvm::Error problem = checkOrder(device))
      return problem;
  return setTimes();
}

llvm::Error heddle::verifySchedule(StageSchedule &schedule,
                                   int64_t mostInFlight) {
  return Verifier(schedule, mostInFlight).run();
}
