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

Expected<Cudnn> loadCudnn(int driverVersion) {
  Cudnn functions;
  size_t cuda = 0; // 13010: CUDA 13.1
  auto accepts = [&](const Library &library) -> Status {
#define X(member, symbol, result, parameters)                                  \
  HEDDLE_RT_RETURN_IF_ERROR(library.find(#symbol, functions.member));
    HEDDLE_CUDNN_FUNCTIONS(X)
#undef X
    size_t version = functions.getVersion();
    if (version < kLeastVersion)
      return errorOf(library.path(), ": expected cuDNN ", kLeastVersion / 10000,
                     ".", kLeastVersion / 100 % 100, " or newer, got ",
                     version / 10000, ".", version / 100 % 100, ".",
                     version % 100,
                     ": install a newer cuDNN, or the wheel "
                     "nvidia-cudnn-cu",
                     driverVersion / 1000);
    cuda = functions.getCudaVersion();
    return checkDriverServes(library, "cuDNN", int(cuda / 1000), driverVersion,
                             "nvidia-cudnn-cu");
  };
  Expected<Library> library = openLibrary(
      {"libcudnn.so.9"}, "cuDNN",
      "install cuDNN 9, or the wheel nvidia-cudnn-cu13 (nvidia-cudnn-cu12 for "
      "a driver for CUDA 12)",
      accepts);
  HEDDLE_RT_RETURN_IF_ERROR(library.status());
  // cuDNN compiles its kernels with the NVRTC of its own CUDA, which it looks
  // for by its name alone, when the first plan is made. So it finds the NVRTC
  // that is loaded here, also if it is from a wheel.
  std::string nvrtc = concat("libnvrtc.so.", cuda / 1000);
  HEDDLE_RT_RETURN_IF_ERROR(
      openLibrary({nvrtc}, "NVRTC, which cuDNN needs",
                  "install CUDA's libraries, or the wheel nvidia-cuda-nvrtc "
                  "(nvidia-cuda-nvrtc-cu12 for CUDA 12)")
          .status());
  return functions;
}

} // namespace heddle::runtime::cuda::dnn
