//===- OpenPart.cpp - Parts of the runtime that load on demand ------------===//

#include "support/OpenPart.h"
#include "support/Message.h"

#include <dlfcn.h>
#include <filesystem>
#include <string>

namespace heddle::runtime {

/// Returns the folder that holds this library; empty if the loader does not
/// know it.
static std::filesystem::path ownFolder() {
  static const char anchor = 0;
  Dl_info info;
  if (!dladdr(&anchor, &info) || !info.dli_fname)
    return {};
  std::error_code error;
  std::filesystem::path file = std::filesystem::absolute(info.dli_fname, error);
  return error ? std::filesystem::path() : file.parent_path();
}

Expected<const PartVersion *> openPart(const Part &part) {
  std::filesystem::path folder = ownFolder(), beside = folder / part.file;
  std::error_code ignored;
  std::string problems;
  auto open = [&](const std::string &file) {
    void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? nullptr : dlerror();
    if (why)
      problems += concat(problems.empty() ? "" : "; ", why);
    return handle;
  };
  void *handle = nullptr;
  std::string where = folder.string();
  // A file beside this library is of the same build. If it cannot be loaded,
  // one from the system's library path would not fit.
  if (!folder.empty() && std::filesystem::exists(beside, ignored)) {
    handle = open(beside.string());
  } else {
    handle = open(part.file);
    where += " and on the system's library path";
  }
  if (!handle)
    return errorOf("cannot load ", part.file, ", which ", part.purpose,
                   ": sought in ", where, ": ", problems, ": ", part.remedy);
  auto *table = static_cast<const PartVersion *>(dlsym(handle, part.table));
  if (!table || table->version != part.version)
    return errorOf(part.file, ": expected version ", part.version, ", got ",
                   table ? concat(table->version) : "none",
                   ": take it and libheddle_rt.so from the same build");
  return table;
}

} // namespace heddle::runtime
