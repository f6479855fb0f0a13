//===- TemporaryFolder.h - A folder that does not outlive us ----*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_TEMPORARYFOLDER_H
#define HEDDLE_TOOLS_HEDDLE_TEMPORARYFOLDER_H

#include <filesystem>

namespace heddle::tools {

/// A folder below the system's one for temporary files. It is removed with all
/// that it holds by the destructor, and when SIGINT, SIGTERM or SIGHUP ends the
/// process. What a killed process left behind is removed by the next one that
/// makes such a folder: a living one holds a lock on a file within.
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
