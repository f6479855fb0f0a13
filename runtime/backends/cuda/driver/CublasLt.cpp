//===- CublasLt.cpp - NVIDIA's matrix products, loaded at run time --------===//

#include "backends/cuda/driver/CublasLt.h"
#include "backends/cuda/driver/FindLibrary.h"
#include "support/Message.h"

namespace heddle::runtime::cuda::blas {

static const char *describe(Result result) {
  switch (result) {
  case 1:
    return "not initialized";
  case 3:
    return "not enough memory";
  case kInvalidValue:
    return "invalid value";
  case 8:
    return "the GPU lacks a feature";
  case 13:
    return "execution failed";
  case 14:
    return "internal error";
  case kNotSupported:
    return "not supported";
  }
  return "unknown error";
}

Status CublasLt::check(Result result, const char *function) {
  return result == kSuccess ? Status::success()
                            : errorOf(function, ": ", describe(result),
                                      " (cuBLAS status ", result, ")");
}

Expected<CublasLt> loadCublasLt(int driverVersion) {
  CublasLt functions;
  auto accepts = [&](const Library &library) -> Status {
#define X(member, symbol, result, parameters)                                  \
  HEDDLE_RT_RETURN_IF_ERROR(library.find(#symbol, functions.member));
    HEDDLE_CUBLASLT_FUNCTIONS(X)
#undef X
    size_t version = functions.getVersion();
    if (version < kLeastVersion)
      return errorOf(library.path(), ": expected cuBLASLt ",
                     kLeastVersion / 10000, " or newer, got version ", version,
                     ": install newer libraries of CUDA, or the wheel "
                     "nvidia-cublas");
    // cuBLASLt has the major version of its CUDA.
    return checkDriverServes(library, "cuBLASLt", int(version / 10000),
                             driverVersion, "nvidia-cublas-cu");
  };
  Expected<Library> library = openLibrary(
      {"libcublasLt.so.13", "libcublasLt.so.12"}, "cuBLASLt",
      "install CUDA's libraries, or the wheel nvidia-cublas", accepts);
  HEDDLE_RT_RETURN_IF_ERROR(library.status());
  return functions;
}

} // namespace heddle::runtime::cuda::blas
