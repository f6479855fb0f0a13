//===- TemporaryFolder.h - A folder that is removed at exit -----*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_TEMPORARYFOLDER_H
#define HEDDLE_TOOLS_HEDDLE_TEMPORARYFOLDER_H

#include <filesystem>

namespace heddle::tools {

/// A folder below the system's folder for temporary files. The destructor
/// removes it with its content. SIGINT, SIGTERM and SIGHUP remove it too if
/// they end the process. If a process is killed, the next process that makes a
/// TemporaryFolder removes the folder: each process locks a file in its folder,
/// so a folder without a lock is stale.
///
/// At most one exists at a time, because a signal handler must find it.
class TemporaryFolder {
public:
  /// Makes the folder. If that fails, path() is empty.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  const std::filesystem::path &path() const { return folder; }

private:
  std::filesystem::path folder;
  int lock = -1;
};

inline constexpr const char *cannotMakeTemporary =
    "cannot make a temporary folder; set TMPDIR to a folder that is writable";

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_TEMPORARYFOLDER_H
