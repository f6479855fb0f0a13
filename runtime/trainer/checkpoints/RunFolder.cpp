//===- RunFolder.cpp - The folder of a run and its checkpoints ------------===//

#include "heddle_rt/checkpoint.h"
#include "heddle_rt/trainer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace heddle::runtime;

fs::path heddle::runtime::checkpointPath(const fs::path &folder, int64_t step) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "step-%08lld",
                static_cast<long long>(step));
  return folder / buffer;
}

std::vector<fs::path> heddle::runtime::listCheckpoints(const fs::path &folder) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code failure;
  for (const fs::directory_entry &entry :
       fs::directory_iterator(folder, failure)) {
    long long step;
    int length = 0;
    std::string fileName = entry.path().filename().string();
    if (std::sscanf(fileName.c_str(), "step-%lld%n", &step, &length) == 1 &&
        length == static_cast<int>(fileName.size()) &&
        fs::exists(entry.path() / "state.json", failure))
      found.push_back({step, entry.path()});
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto &[step, path] : found)
    paths.push_back(std::move(path));
  return paths;
}

/// Removes the folders of checkpoints that were interrupted.
static void removeUnfinished(const fs::path &folder) {
  std::error_code ignored;
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry &entry :
       fs::directory_iterator(folder, ignored)) {
    std::string fileName = entry.path().filename().string();
    bool isPartial =
        fileName.starts_with(".step-") && fileName.ends_with(".partial");
    bool lacksState = fileName.starts_with("step-") &&
                      entry.is_directory(ignored) &&
                      !fs::exists(entry.path() / "state.json", ignored);
    if (isPartial || lacksState)
      unfinished.push_back(entry.path());
  }
  for (const fs::path &path : unfinished)
    fs::remove_all(path, ignored);
}

void heddle::runtime::pruneCheckpoints(const fs::path &folder, int64_t keep) {
  std::error_code ignored;
  std::vector<fs::path> all = listCheckpoints(folder);
  for (int64_t i = 0; i + keep < static_cast<int64_t>(all.size()); ++i)
    fs::remove_all(all[i], ignored);
  removeUnfinished(folder);
}

//===----------------------------------------------------------------------===//
// The lock of a run's folder
//===----------------------------------------------------------------------===//

static constexpr const char *lockName = ".lock";

RunLock::~RunLock() {
  if (descriptor >= 0)
    ::close(descriptor); // releases the lock
}

/// How often, and after how many milliseconds, a run asks again for its lock.
/// A process that only asks whether the folder is free holds it for a moment.
static constexpr int lockTries = 20;
static constexpr std::chrono::milliseconds lockPause(10);

/// Locks the file in the given way, and fails if another process has it.
static Status lockFile(int descriptor, int way, const fs::path &folder) {
  if (::flock(descriptor, way | LOCK_NB) == 0)
    return Status::success();
  if (errno != EWOULDBLOCK)
    return error("cannot lock '" + (folder / lockName).string() +
                 "': " + std::strerror(errno));
  std::string holder;
  char text[256] = {};
  if (::pread(descriptor, text, sizeof text - 1, 0) > 0)
    holder = std::string(", process ") + text;
  return error("another run writes to '" + folder.string() + "'" + holder +
               ": wait for its end, or choose another folder");
}

Status RunLock::checkFree(const fs::path &folder) {
  RunLock lock;
  lock.descriptor =
      ::open((folder / lockName).c_str(), O_RDONLY | O_CLOEXEC, 0);
  if (lock.descriptor < 0)
    return errno == ENOENT
               ? Status::success()
               : error("cannot read '" + (folder / lockName).string() +
                       "': " + std::strerror(errno));
  // Shared, so that two processes that ask do not take each other for a run.
  return lockFile(lock.descriptor, LOCK_SH, folder);
}

Expected<RunLock> RunLock::take(const fs::path &folder) {
  RunLock lock;
  lock.descriptor =
      ::open((folder / lockName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock.descriptor < 0)
    return error("cannot write to the folder '" + folder.string() +
                 "': " + std::strerror(errno));
  Status locked = lockFile(lock.descriptor, LOCK_EX, folder);
  for (int i = 1; !locked.ok() && i < lockTries; ++i) {
    std::this_thread::sleep_for(lockPause);
    locked = lockFile(lock.descriptor, LOCK_EX, folder);
  }
  if (!locked.ok())
    return locked;
  char text[256] = {};
  char host[128] = "an unknown host";
  ::gethostname(host, sizeof host - 1);
  int length = std::snprintf(text, sizeof text, "%d on host %s",
                             static_cast<int>(::getpid()), host);
  // The content only tells people which process has the folder.
  (void)!::ftruncate(lock.descriptor, 0);
  (void)!::pwrite(lock.descriptor, text, static_cast<size_t>(length), 0);

  removeUnfinished(checkpointFolder(folder));
  std::error_code ignored;
  std::vector<fs::path> artifacts;
  for (const fs::directory_entry &entry :
       fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with("model.heddle.new-"))
      artifacts.push_back(entry.path());
  for (const fs::path &path : artifacts)
    fs::remove_all(path, ignored);
  return lock;
}
