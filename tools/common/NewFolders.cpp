//===- NewFolders.cpp - Folders that a training command makes -------------===//

#include "NewFolders.h"

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;

NewFolders::NewFolders(const TrainFlags &flags) {
  auto note = [&](const fs::path &folder) {
    std::error_code failure;
    if (!folder.empty() && !fs::exists(folder, failure) && !failure)
      folders.push_back(folder);
  };
  if (flags.writesCheckpoints())
    note(flags.options.output);
  note(flags.options.exportTo);
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
  for (const fs::path &folder : folders)
    if (hasNoResult(folder))
      fs::remove_all(folder, ignored);
  return code;
}
