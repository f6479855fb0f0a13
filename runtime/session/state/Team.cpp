//===- Team.cpp - The devices' threads ------------------------------------===//

#include "session/state/Team.h"

#include <pthread.h>
#include <string>

namespace heddle::runtime {

void Team::start(int32_t devices, std::shared_ptr<void> owner) {
  running.resize(size_t(devices));
  for (int32_t device = 0; device < devices; ++device) {
    threads.emplace_back([this, device, owner]() mutable {
      work(device);
      // If this thread hung and outlived the session, this frees the
      // session's state.
      owner.reset();
    });
    std::string name = "heddle " + std::to_string(device);
    pthread_setname_np(threads.back().native_handle(), name.c_str());
  }
}

void Team::work(int32_t device) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex);
  for (;;) {
    started.wait(lock, [&] { return stopping || epoch != seen; });
    if (stopping)
      return;
    seen = epoch;
    Job run = job;
    void *jobContext = context;
    lock.unlock();
    bool success = run(jobContext, device);
    lock.lock();
    running[size_t(device)] = false;
    --remaining;
    failed |= !success;
    if (remaining == 0 || failed)
      finished.notify_all();
  }
}

void Team::begin(Job newJob, void *jobContext) {
  std::lock_guard lock(mutex);
  job = newJob;
  context = jobContext;
  failed = false;
  remaining = int32_t(threads.size());
  std::fill(running.begin(), running.end(), true);
  ++epoch;
  started.notify_all();
}

bool Team::wait(std::chrono::milliseconds grace) {
  std::unique_lock lock(mutex);
  finished.wait(lock, [&] { return remaining == 0 || failed; });
  return finished.wait_for(lock, grace, [&] { return remaining == 0; });
}

bool Team::isFinished(int32_t device) const {
  std::lock_guard lock(mutex);
  return !running[size_t(device)];
}

void Team::stop() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  started.notify_all();
  for (size_t device = 0; device < threads.size(); ++device)
    if (isFinished(int32_t(device)))
      threads[device].join();
    else
      threads[device].detach();
  threads.clear();
}

} // namespace heddle::runtime
