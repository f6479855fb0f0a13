//===- RunSequence.cpp - Runs of a table that overlap ---------------------===//
//
// Runs a table without a barrier. Each device's thread goes through the runs on
// its own: it issues a run, waits for its own streams, and begins the next one.
// Its peers may be one run behind. No slot of the device is in use when it
// begins the next run, because its own streams are idle then. Inputs and
// outputs have two copies, used in turns, because the host still reads those of
// the run before.
//
//===----------------------------------------------------------------------===//

#include "session/state/RunSequence.h"
#include "session/state/SessionState.h"

#include <algorithm>

namespace heddle::runtime {

void RunSequence::reset(size_t devices) {
  std::lock_guard lock(mutex);
  staged = 0;
  ended.assign(devices, 0);
  isComplete = hasFailed = false;
}

void RunSequence::addRun() {
  std::lock_guard lock(mutex);
  ++staged;
  changed.notify_all();
}

void RunSequence::complete() {
  std::lock_guard lock(mutex);
  isComplete = true;
  changed.notify_all();
}

bool RunSequence::awaitStaged(int64_t run) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return staged > run || isComplete || hasFailed; });
  return staged > run && !hasFailed;
}

void RunSequence::setEnded(size_t device, int64_t run) {
  std::lock_guard lock(mutex);
  ended[device] = run + 1;
  changed.notify_all();
}

bool RunSequence::awaitEnded(int64_t run) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] {
    return hasFailed || std::ranges::all_of(
                            ended, [&](int64_t count) { return count > run; });
  });
  return !hasFailed;
}

void RunSequence::fail() {
  std::lock_guard lock(mutex);
  hasFailed = true;
  changed.notify_all();
}

static void add(const DeviceTimes &times, DeviceTimes &sum) {
  for (size_t kind = 0; kind < numWorkKinds; ++kind) {
    sum.seconds[kind] += times.seconds[kind];
    sum.calls[kind] += times.calls[kind];
  }
  sum.total += times.total;
}

/// Executes the staged runs, on the thread of a device.
static Status runStaged(SessionState &state, DeviceState &rank, size_t table,
                        RunSequence &sequence) {
  auto device = size_t(state.deviceOfRank[size_t(rank.device->rank)]);
  DeviceTimes &times = rank.device->times;
  DeviceTimes sum = times; // since the last reset
  Status status;
  for (int64_t run = 0; status.ok() && sequence.awaitStaged(run); ++run) {
    times = DeviceTimes();
    try {
      status = state.runEntries(rank, table, run);
    } catch (const std::exception &exception) {
      status = Status::error(exception.what());
    }
    rank.timesOfRuns[run % 2] = times;
    add(times, sum);
    if (status.ok())
      sequence.setEnded(device, run);
    else
      sequence.fail();
  }
  times = sum;
  return status;
}

Status SessionState::runSequence(
    size_t table, int64_t count,
    const std::function<Expected<bool>(int64_t run)> &stage,
    const std::function<Status(int64_t run)> &finish) {
  currentTable = table;
  sequence.reset(devices.size());
  HEDDLE_RT_RETURN_IF_ERROR(
      beginOnDevices([](SessionState &state, DeviceState &rank) {
        return runStaged(state, rank, state.currentTable, state.sequence);
      }));
  Status status;
  auto finishRun = [&](int64_t run) {
    if (!sequence.awaitEnded(run))
      return false;
    finishedRun = run;
    status = finish(run);
    finishedRun.reset();
    return status.ok();
  };
  int64_t run = 0;
  for (bool isGood = true; isGood && run < count; ++run) {
    Expected<bool> isStaged = stage(run);
    if (!isStaged.ok())
      status = std::move(isStaged).status();
    if (!status.ok() || !*isStaged)
      break;
    sequence.addRun();
    isGood = run == 0 || finishRun(run - 1);
  }
  if (status.ok() && run > 0)
    finishRun(run - 1);
  sequence.complete();
  Status ended = awaitDevices();
  return ended.ok() ? status : ended;
}

} // namespace heddle::runtime
