//===- Cudnn.cpp - NVIDIA's attention, loaded at run time -----------------===//

#include "backends/cuda/driver/Cudnn.h"
#include "backends/cuda/driver/FindLibrary.h"
#include "support/Message.h"

#include <array>

namespace heddle::runtime::cuda::dnn {

static const char *describe(Result result) {
  switch (result / 1000) {
  case 1:
    return "not initialized";
  case 2:
    return "bad parameter";
  case 3:
    return "not supported";
  case 4:
    return "internal error";
  case 5:
    return "execution failed";
  }
  return "unknown error";
}

Status Cudnn::check(Result result, const char *function) const {
  if (result == kSuccess)
    return Status::success();
  std::array<char, 512> reason{};
  getLastError(reason.data(), reason.size() - 1);
  return errorOf(function, ": ", describe(result), " (cuDNN status ", result,
                 ")", reason[0] ? ": " : "", reason.data());
}

Expected<Cudnn> loadCudnn() {
  // cuDNN compiles its kernels with NVRTC and looks for it by its name alone.
  // So cuDNN finds the NVRTC that is loaded here, also if it is from a wheel.
  HEDDLE_RT_RETURN_IF_ERROR(
      openLibrary({"libnvrtc.so.13", "libnvrtc.so.12"},
                  "NVRTC, which cuDNN needs",
                  "install CUDA's libraries, or the wheel nvidia-cuda-nvrtc")
          .status());
  Expected<Library> library =
      openLibrary({"libcudnn.so.9"}, "cuDNN",
                  "install cuDNN 9, or the wheel nvidia-cudnn-cu13");
  HEDDLE_RT_RETURN_IF_ERROR(library.status());
  Cudnn functions;
#define X(member, symbol, result, parameters)                                  \
  HEDDLE_RT_RETURN_IF_ERROR(library->find(#symbol, functions.member));
  HEDDLE_CUDNN_FUNCTIONS(X)
#undef X
  if (size_t version = functions.getVersion(); version < kLeastVersion)
    return errorOf(library->path(), ": expected cuDNN ", kLeastVersion / 10000,
                   ".", kLeastVersion / 100 % 100, " or newer, got ",
                   version / 10000, ".", version / 100 % 100, ".",
                   version % 100,
                   ": install a newer cuDNN, or the wheel nvidia-cudnn-cu13");
  return functions;
}

} // namespace heddle::runtime::cuda::dnn
