//===- Team.h - The devices' threads ----------------------------*- C++ -*-===//
//
// One thread a device, started once. A job runs on all of them; the caller
// waits until all are done, but not forever for one that hangs after another
// failed.
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
  /// The threads keep `owner` alive while they run, so a thread that hangs may
  /// be left behind with the memory that it uses.
  void start(int32_t devices, std::shared_ptr<void> owner);

  /// Lets the threads end; those that hang are left behind. To be called by the
  /// owner's user before it lets go of the owner.
  void stop();

  using Job = bool (*)(void *context, int32_t device);

  /// Calls job(context, device) on every device's thread; it returns false on
  /// failure. After a failure the others have `grace` to return. True if all
  /// returned; otherwise `context` must live as long as the owner, and the team
  /// takes no more jobs.
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
