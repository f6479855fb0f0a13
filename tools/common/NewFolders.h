//===- NewFolders.h - Folders that a training command makes -----*- C++ -*-===//

#ifndef HEDDLE_TOOLS_COMMON_NEWFOLDERS_H
#define HEDDLE_TOOLS_COMMON_NEWFOLDERS_H

#include "Run.h"

namespace heddle::tools {

/// The folders of a run and of its export that did not exist before a command.
/// If the command fails before it writes anything into them but the compiled
/// model, they are removed. So the same command can be given again, and no
/// folder looks like a run. A run's folder that another process has locked
/// stays.
class NewFolders {
public:
  explicit NewFolders(const TrainFlags &flags);
  /// Removes the folders if the command has failed as described above. Returns
  /// `code`, the command's exit code.
  int end(int code) const;

private:
  std::filesystem::path run, exportTo; ///< empty: none, or not new
};

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_NEWFOLDERS_H
