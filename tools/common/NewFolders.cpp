//===- NewFolders.cpp - Folders that a training command makes -------------===//

#include "NewFolders.h"

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;

NewFolders::NewFolders(const TrainFlags &flags) {
  auto isNew = [](const fs::path &folder) {
    std::error_code failure;
    return !folder.empty() && !fs::exists(folder, failure) && !failure;
  };
  if (flags.writesCheckpoints() && isNew(flags.options.output))
    run = flags.options.output;
  if (isNew(flags.options.exportTo))
    exportTo = flags.options.exportTo;
}

/// Returns whether a folder has no result of a run.
static bool hasNoResult(const fs::path &folder) {
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; entry != end;
       entry.increment(failure)) {
    fs::path name = entry->path().filename();
    if (name != "model.heddle" && name != ".lock")
      return false;
  }
  return !failure;
}

int NewFolders::end(int code) const {
  if (code != exitFailure && code != exitUsage)
    return code;
  std::error_code ignored;
  // The export may be within the run's folder.
  if (!exportTo.empty())
    fs::remove(exportTo, ignored); // only if it is empty
  if (!run.empty() && holdsRunFolder() && hasNoResult(run))
    fs::remove_all(run, ignored);
  return code;
}
