//===- RunSequence.h - Runs of a table that overlap -------------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_RUNSEQUENCE_H
#define HEDDLE_RT_SESSION_RUNSEQUENCE_H

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace heddle::runtime {

/// How far the devices are in the runs of a table without a barrier. The host
/// stages the inputs of run i + 1 when all devices have ended run i - 1, so at
/// most two runs are under way.
struct RunSequence {
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by `mutex`.
  int64_t staged = 0;         ///< runs that may begin
  std::vector<int64_t> ended; ///< runs, by device
  bool isComplete = false;    ///< no more runs will be staged
  bool hasFailed = false;

  void reset(size_t devices);
  /// Lets the devices begin one run more.
  void addRun();
  /// Lets the devices return after the runs that are staged.
  void complete();
  /// Waits until a run may begin. Returns false if none will.
  bool awaitStaged(int64_t run);
  /// Called when a device has ended a run.
  void setEnded(size_t device, int64_t run);
  /// Waits until all devices have ended a run. Returns false after a failure.
  bool awaitEnded(int64_t run);
  void fail();
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_RUNSEQUENCE_H
