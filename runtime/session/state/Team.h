//===- Team.h - The devices' threads ----------------------------*- C++ -*-===//
//
// One thread for each device, started once. A job runs on all threads, and the
// caller waits until all are done. After one thread has failed, the caller
// waits for the others only for a limited time, because they may hang.
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
  /// Starts the threads. Each thread keeps `owner` alive while it runs. So a
  /// thread that hangs can be abandoned: its memory stays.
  void start(int32_t devices, std::shared_ptr<void> owner);

  /// Ends the threads and abandons those that hang. Must be called before the
  /// last reference to the owner outside of the threads is released.
  void stop();

  using Job = bool (*)(void *context, int32_t device);

  /// Calls job(context, device) on every device's thread; a job returns false
  /// on failure. After a failure the other threads have `grace` to return.
  /// Returns true if all threads returned. Otherwise `context` must live as
  /// long as the owner, and the team takes no more jobs.
  bool run(std::chrono::milliseconds grace, Job job, void *context) {
    begin(job, context);
    return wait(grace);
  }
  /// The two halves of `run`.
  void begin(Job job, void *context);
  bool wait(std::chrono::milliseconds grace);

  /// Returns true if the device's thread has returned from the last job.
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
