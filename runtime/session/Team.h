//===- Team.h - The devices' threads ----------------------------*- C++ -*-===//
//
// One thread a device, started once. A job runs on all of them, and the caller
// waits until all are done. After one has failed, the caller waits for the
// others only for a limited time, because they may hang.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SESSION_TEAM_H
#define HEDDLE_RT_SESSION_TEAM_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle::runtime {

class Team {
public:
  /// Starts the threads. Each keeps `owner` alive while it runs, so a thread
  /// that hangs may be left behind with the memory that it uses.
  void start(int32_t devices, std::shared_ptr<void> owner);

  /// Ends the threads; those that hang are left behind. Must be called before
  /// the last other reference to the owner is released.
  void stop();

  using Job = bool (*)(void *context, int32_t device);

  /// Calls job(context, device) on every device's thread; the job returns false
  /// on failure. After a failure the other threads have `grace` to return.
  /// Returns true if all threads returned. Otherwise `context` must live as
  /// long as the owner, and the team takes no more jobs.
  bool run(std::chrono::milliseconds grace, Job job, void *context);

  /// Whether a device has returned from the last job.
  bool isFinished(int32_t device) const;

private:
  void work(int32_t device);

  mutable std::mutex mutex;
  std::condition_variable started, finished;
  // Guarded by `mutex`.
  uint64_t epoch = 0;
  Job job = nullptr;
  void *context = nullptr;
  std::vector<uint8_t> running; ///< by device
  int32_t remaining = 0;
  bool failed = false, stopping = false;

  std::vector<std::thread> threads;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_TEAM_H
