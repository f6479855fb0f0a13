//===- TemporaryFolder.h - A folder that is removed at exit -----*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_TEMPORARYFOLDER_H
#define HEDDLE_TOOLS_HEDDLE_TEMPORARYFOLDER_H

#include <filesystem>

namespace heddle::tools {

/// A folder below the system's folder for temporary files. The destructor
/// removes it with its content, and so do SIGINT, SIGTERM and SIGHUP when they
/// end the process. A living process holds a lock on a file in its folder. So
/// the next process that makes a folder can tell those of killed processes, and
/// removes them.
///
/// At most one exists at a time, because a signal handler must find it.
class TemporaryFolder {
public:
  /// path() is empty if the folder cannot be made.
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
