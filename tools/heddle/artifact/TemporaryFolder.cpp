//===- TemporaryFolder.cpp - A folder that is removed at exit -------------===//

#include "TemporaryFolder.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace heddle::tools;

static constexpr const char *prefix = "heddle-";
static constexpr const char *lockName = ".lock";

//===----------------------------------------------------------------------===//
// Signals
//===----------------------------------------------------------------------===//

// A signal handler can only use variables with static lifetime.
static std::array<char, PATH_MAX> folderToRemove;
static std::atomic<bool> isFolderToRemove = false;
static constexpr std::array<int, 3> endingSignals = {SIGINT, SIGTERM, SIGHUP};
static std::array<struct sigaction, endingSignals.size()> previousActions;

/// Removes the content of a folder. Uses system calls alone, not readdir, which
/// calls malloc: the signal may have interrupted malloc.
static void removeContents(int folder, int depth) {
  alignas(dirent64) std::array<char, 4096> buffer;
  // Removing an entry may hide others from the listing. So lists again until
  // nothing is removed.
  for (bool removed = true; removed;) {
    removed = false;
    ::lseek(folder, 0, SEEK_SET);
    long bytes;
    while ((bytes = ::syscall(SYS_getdents64, folder, buffer.data(),
                              buffer.size())) > 0)
      for (long at = 0; at < bytes;) {
        auto *entry = reinterpret_cast<dirent64 *>(buffer.data() + at);
        at += entry->d_reclen;
        const char *name = entry->d_name;
        if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0)
          continue;
        if (::unlinkat(folder, name, 0) == 0) {
          removed = true;
          continue;
        }
        int inner =
            depth == 0
                ? -1
                : ::openat(folder, name,
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0)
          continue;
        removeContents(inner, depth - 1);
        ::close(inner);
        removed |= ::unlinkat(folder, name, AT_REMOVEDIR) == 0;
      }
  }
}

/// Removes the folder, then ends the process as the signal would have done
/// without this handler.
static void removeAndEnd(int number) {
  if (isFolderToRemove.exchange(false)) {
    int folder = ::open(folderToRemove.data(),
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0) {
      // Another thread may still write a file into the folder.
      for (int attempt = 0; attempt < 10; ++attempt) {
        removeContents(folder, /*depth=*/4);
        if (::rmdir(folderToRemove.data()) == 0 || errno != ENOTEMPTY)
          break;
      }
      ::close(folder);
    }
  }
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(number, &action, nullptr);
  ::raise(number); // takes effect when this handler returns
}

static void handleSignals() {
  struct sigaction action{};
  action.sa_handler = removeAndEnd;
  for (size_t i = 0; i < endingSignals.size(); ++i) {
    ::sigaction(endingSignals[i], nullptr, &previousActions[i]);
    // A signal that was ignored (as under nohup) stays ignored.
    if (previousActions[i].sa_handler != SIG_IGN)
      ::sigaction(endingSignals[i], &action, nullptr);
  }
}

//===----------------------------------------------------------------------===//
// The folder
//===----------------------------------------------------------------------===//

/// Locks the folder's lock file and returns its descriptor. `flags` may ask to
/// create the file. Returns -1 if the file does not exist or another process
/// holds the lock.
static int lockFolder(const fs::path &folder, int flags) {
  int lock = ::open((folder / lockName).c_str(),
                    O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    lock = -1;
  }
  return lock;
}

/// Removes the folders of processes that were killed. Nobody holds their locks.
static void removeStaleFolders(const fs::path &base) {
  std::error_code failure;
  fs::directory_iterator entry(base, failure), end;
  for (; !failure && entry != end; entry.increment(failure)) {
    const fs::path &path = entry->path();
    struct stat info;
    // A folder that is less than a minute old may not have its lock yet.
    if (!path.filename().string().starts_with(prefix) ||
        ::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
        info.st_uid != ::geteuid() || std::time(nullptr) - info.st_mtime < 60)
      continue;
    int lock = lockFolder(path, /*flags=*/0);
    if (lock < 0)
      continue;
    std::error_code ignored;
    fs::remove_all(path, ignored);
    ::close(lock);
  }
}

TemporaryFolder::TemporaryFolder() {
  std::error_code failure;
  fs::path base = fs::temp_directory_path(failure);
  std::string pattern = (base / (std::string(prefix) + "XXXXXX")).string();
  if (failure || pattern.size() >= folderToRemove.size() || isFolderToRemove)
    return;
  removeStaleFolders(base);
  if (!::mkdtemp(pattern.data()))
    return;
  std::memcpy(folderToRemove.data(), pattern.c_str(), pattern.size() + 1);
  isFolderToRemove = true;
  handleSignals();
  folder = pattern;
  lock = lockFolder(folder, O_CREAT | O_EXCL);
}

TemporaryFolder::~TemporaryFolder() {
  if (folder.empty())
    return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  isFolderToRemove = false;
  for (size_t i = 0; i < endingSignals.size(); ++i)
    ::sigaction(endingSignals[i], &previousActions[i], nullptr);
  if (lock >= 0)
    ::close(lock);
}
