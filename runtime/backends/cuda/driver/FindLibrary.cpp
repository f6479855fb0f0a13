//===- FindLibrary.cpp - Finds libraries of GPU machines ------------------===//

#include "backends/cuda/driver/FindLibrary.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <optional>
#include <string_view>

namespace heddle::runtime::cuda {

namespace fs = std::filesystem;

void *Library::lookUp(const char *symbol) const {
  return dlsym(handle, symbol);
}

static std::string_view environment(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

/// Returns the folders of a list that colons separate.
static std::vector<fs::path> foldersOf(std::string_view list) {
  std::vector<fs::path> folders;
  while (!list.empty()) {
    size_t end = std::min(list.find(':'), list.size());
    if (end > 0)
      folders.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return folders;
}

/// Returns the entries of a folder, sorted; none if it cannot be read.
static std::vector<fs::path> entriesOf(const fs::path &folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    entries.push_back(entry->path());
  std::ranges::sort(entries);
  return entries;
}

/// Adds the `lib` folders of the wheels nvidia-* below
/// PREFIX/lib/pythonX.Y/{site,dist}-packages/nvidia.
static void addWheels(const fs::path &prefix, std::vector<fs::path> &folders) {
  for (const fs::path &python : entriesOf(prefix / "lib"))
    if (python.filename().string().starts_with("python"))
      for (const char *packages : {"site-packages", "dist-packages"})
        for (const fs::path &wheel : entriesOf(python / packages / "nvidia"))
          folders.push_back(wheel / "lib");
}

Status checkDriverServes(const Library &library, const char *what,
                         int cudaMajor, int driverVersion, const char *wheel) {
  int driverMajor = driverVersion / 1000;
  if (cudaMajor <= driverMajor)
    return Status::success();
  return errorOf(library.path(), ": ", what, " of CUDA ", cudaMajor,
                 " needs a driver for CUDA ", cudaMajor,
                 ", this machine has one for CUDA ", driverMajor, ".",
                 driverVersion % 1000 / 10,
                 ": install a newer driver, or the wheel ", wheel, driverMajor);
}

namespace {

/// A search for one library.
class Search {
public:
  Search(const std::vector<std::string> &names,
         const std::function<Status(const Library &)> &accepts)
      : names(names), accepts(accepts) {}

  /// Returns the library of a file. Returns none if the file cannot be loaded
  /// or is refused.
  std::optional<Library> open(const std::string &file) {
    void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      // If the file exists but cannot be loaded, the error message says why.
      std::error_code error;
      const char *why = dlerror();
      if (file.find('/') != std::string::npos && fs::exists(file, error) && why)
        problems += concat("; ", why);
      return std::nullopt;
    }
    Library library(handle, file);
    Status accepted = accepts ? accepts(library) : Status::success();
    if (accepted.ok())
      return library;
    if (refusals.find(accepted.message()) == std::string::npos)
      refusals += concat(refusals.empty() ? "" : "; ", accepted.message());
    dlclose(handle);
    return std::nullopt;
  }

  std::optional<Library> openIn(const std::vector<fs::path> &folders) {
    for (const fs::path &folder : folders)
      for (const std::string &name : names)
        if (std::optional<Library> found = open((folder / name).string()))
          return found;
    return std::nullopt;
  }

  std::string problems; ///< of files that cannot be loaded
  std::string refusals; ///< of libraries that do not serve

private:
  const std::vector<std::string> &names;
  const std::function<Status(const Library &)> &accepts;
};

} // namespace

Expected<Library>
openLibrary(const std::vector<std::string> &names, const char *what,
            const char *hint,
            const std::function<Status(const Library &)> &accepts) {
  Search search(names, accepts);
  std::vector<fs::path> chosen = foldersOf(environment("HEDDLE_RT_CUDA_PATH"));
  if (std::optional<Library> found = search.openIn(chosen))
    return *found;
  if (!search.refusals.empty())
    return Status::error(search.refusals);
  for (const std::string &name : names)
    if (std::optional<Library> found = search.open(name))
      return *found;
  std::vector<fs::path> others;
  for (const fs::path &toolkit : entriesOf("/usr/local"))
    if (toolkit.filename().string().starts_with("cuda"))
      for (const char *lib : {"lib64", "lib"})
        others.push_back(toolkit / lib);
  for (const char *variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (std::string_view prefix = environment(variable); !prefix.empty())
      addWheels(prefix, others);
  for (const char *prefix : {"/usr/local", "/usr"})
    addWheels(prefix, others);
  if (std::optional<Library> found = search.openIn(others))
    return *found;
  if (!search.refusals.empty())
    return Status::error(search.refusals);

  std::string list, places;
  for (const std::string &name : names)
    list += concat(list.empty() ? "" : " or ", name);
  for (const fs::path &folder : chosen)
    places += concat(folder.string(), ", ");
  places += "the system's library path";
  for (const fs::path &folder : others)
    places += concat(", ", folder.string());
  return errorOf("cannot find ", what, " (", list, "): sought in ", places,
                 search.problems, ": ", hint,
                 "; HEDDLE_RT_CUDA_PATH names more folders");
}

} // namespace heddle::runtime::cuda
