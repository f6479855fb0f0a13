//===- IssueRun.cpp - Issues the entries of a table -----------------------===//

#include "session/state/IssueRun.h"
#include "support/Message.h"

#include <algorithm>
#include <condition_variable>
#include <set>
#include <system_error>
#include <thread>

namespace heddle::runtime {

namespace {

/// Issues one entry of a table. After an error the device has the message.
Status issue(heddle_rt_device &device, const PreparedEntry &entry) {
  for (int32_t event : entry.waits)
    HEDDLE_RT_RETURN_IF_ERROR(device.waitEvent(entry.stream, event));
  if (entry.program) {
    heddle_rt_status status = entry.program->function(&device, &entry.frame);
    if (status != 0 && !device.hasFailed())
      return errorOf("program ", entry.program->info->name, " returned status ",
                     status, " without a message");
  } else {
    HEDDLE_RT_RETURN_IF_ERROR(device.collective(entry.stream, entry.transfer));
  }
  return entry.event < 0 || device.hasFailed()
             ? Status::success()
             : device.recordEvent(entry.stream, entry.event);
}

/// Issues a run on a device whose receives block the thread that issues them.
/// The calling thread issues the calls of programs, and the transfers of their
/// streams. Each other stream has a thread of its own, so a receive delays only
/// the later entries of its stream. A stream can only wait for an event that
/// was recorded before. So a thread waits until the events of its next entry
/// are recorded by other threads.
class ThreadedRun {
public:
  ThreadedRun(heddle_rt_device &device,
              const std::vector<PreparedEntry> &entries)
      : device(device), entries(entries) {}

  Status issueAll() {
    std::set<int32_t> ofCalls, others;
    for (const PreparedEntry &entry : entries)
      if (entry.program)
        ofCalls.insert(entry.stream);
    for (const PreparedEntry &entry : entries)
      if (!ofCalls.contains(entry.stream))
        others.insert(entry.stream);
    std::vector<std::jthread> threads;
    Status status;
    try {
      for (int32_t stream : others)
        threads.emplace_back([this, stream] {
          Status used = device.useThread();
          finish(used.ok() ? issueStreams({stream}) : used);
        });
    } catch (const std::system_error &error) {
      status = errorOf("the system refuses a thread: ", error.what());
    }
    if (status.ok())
      status = issueStreams(ofCalls);
    finish(std::move(status));
    threads.clear(); // joins them
    return first;
  }

private:
  /// Issues the entries of some streams, in the order of the table.
  Status issueStreams(const std::set<int32_t> &streams) {
    for (size_t i = 0; i < entries.size(); ++i) {
      const PreparedEntry &entry = entries[i];
      if (!streams.contains(entry.stream))
        continue;
      if (!awaitRecords(entry))
        return Status::success();
      if (entry.program)
        device.place = {int32_t(i), -1};
      Status status = issue(device, entry);
      if (!status.ok() || device.hasFailed())
        return status;
      if (entry.event >= 0) {
        std::lock_guard lock(mutex);
        recorded.insert(entry.event);
        changed.notify_all();
      }
    }
    return Status::success();
  }

  /// Waits until all events that an entry waits for are recorded. Returns false
  /// if the run has failed.
  bool awaitRecords(const PreparedEntry &entry) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] {
      return hasFailed || std::ranges::all_of(entry.waits, [&](int32_t event) {
               return recorded.contains(event);
             });
    });
    return !hasFailed;
  }

  /// Notes how a thread has ended. An error stops the others.
  void finish(Status status) {
    bool isGood = status.ok() && !device.hasFailed();
    {
      std::lock_guard lock(mutex);
      hasFailed |= !isGood;
      if (first.ok())
        first = status;
      changed.notify_all();
    }
    if (!status.ok())
      device.fail(std::move(status)); // wakes receives
  }

  heddle_rt_device &device;
  const std::vector<PreparedEntry> &entries;
  std::mutex mutex; ///< guards the members below
  std::condition_variable changed;
  std::set<int32_t> recorded; ///< events
  bool hasFailed = false;
  Status first; ///< error
};

} // namespace

Status issueRun(heddle_rt_device &device, size_t table,
                const std::vector<PreparedEntry> &entries) {
  Expected<bool> isRepeated = device.beginRun(table);
  HEDDLE_RT_RETURN_IF_ERROR(isRepeated.status());
  if (*isRepeated)
    return Status::success();
  bool hasTransfers = !std::ranges::all_of(entries, &PreparedEntry::program);
  if (hasTransfers && device.waitsInReceives()) {
    HEDDLE_RT_RETURN_IF_ERROR(ThreadedRun(device, entries).issueAll());
    return device.hasFailed() ? Status::success() : device.endRun();
  }
  for (const PreparedEntry &entry : entries) {
    device.place = {device.place.entry + 1, -1};
    HEDDLE_RT_RETURN_IF_ERROR(issue(device, entry));
    if (device.hasFailed())
      return Status::success();
  }
  return device.endRun();
}

} // namespace heddle::runtime
