//===- FindLibrary.h - Finds libraries of GPU machines ----------*- C++ -*-===//
//
// NVIDIA's libraries come with the system, with a toolkit, or as Python wheels
// (nvidia-cublas and others). They are loaded when a GPU is used.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_FINDLIBRARY_H
#define HEDDLE_RT_BACKENDS_CUDA_FINDLIBRARY_H

#include "heddle_rt/status.h"
#include "support/Message.h"

#include <functional>
#include <string>
#include <vector>

namespace heddle::runtime::cuda {

/// A loaded library. It stays loaded until the process ends, as its functions
/// may run in threads of its own.
class Library {
public:
  Library(void *handle, std::string file)
      : handle(handle), file(std::move(file)) {}

  /// Sets `function` to the symbol. Error: the library lacks it.
  template <typename F> Status find(const char *symbol, F *&function) const {
    function = reinterpret_cast<F *>(lookUp(symbol));
    return function ? Status::success()
                    : errorOf(file, ": expected the function ", symbol,
                              ", found none: install a newer version");
  }
  const std::string &path() const { return file; }

private:
  void *lookUp(const char *symbol) const;

  void *handle;
  std::string file;
};

/// Loads the first of some file names that is found: in the folders of
/// HEDDLE_RT_CUDA_PATH (separated by colons), where the system's loader looks
/// (LD_LIBRARY_PATH, ld.so.conf), in toolkits below /usr/local, and in the
/// Python wheels of the virtual environment (VIRTUAL_ENV, CONDA_PREFIX) and of
/// the system. The error names the library (`what`) and all places, and gives
/// `hint`.
///
/// A library that `accepts` returns an error for is passed over. If none is
/// left, the error consists of those errors. A folder of HEDDLE_RT_CUDA_PATH is
/// the user's choice: if all libraries there are refused, the search ends.
Expected<Library>
openLibrary(const std::vector<std::string> &names, const char *what,
            const char *hint,
            const std::function<Status(const Library &)> &accepts = {});

/// Returns an error if a library of a major version of CUDA needs a newer
/// driver than one of `driverVersion` (13010: CUDA 13.1). A driver serves the
/// libraries of its own major version and of older ones. `wheel` names the
/// library's wheel for the driver's version, without the number of the version.
Status checkDriverServes(const Library &library, const char *what,
                         int cudaMajor, int driverVersion, const char *wheel);

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_FINDLIBRARY_H
