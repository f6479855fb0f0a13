//===- Driver.cpp - NVIDIA's driver, loaded at run time -------------------===//

#include "backends/cuda/driver/Driver.h"
#include "backends/cuda/driver/FindLibrary.h"
#include "support/Message.h"

namespace heddle::runtime::cuda {

Status Driver::check(Result result, const char *function) const {
  if (result == kSuccess)
    return Status::success();
  const char *text = nullptr;
  if (getErrorString(result, &text) != kSuccess || !text)
    text = "unknown error";
  return errorOf(function, ": ", text, " (CUDA error ", result, ")");
}

Expected<Driver> loadDriver() {
  Expected<Library> library =
      openLibrary({"libcuda.so.1"}, "NVIDIA's driver",
                  "install the driver of the GPU, or compile the model without "
                  "--target-gpu to train it on the CPU");
  HEDDLE_RT_RETURN_IF_ERROR(library.status());
  Driver driver;
#define X(member, symbol, parameters)                                          \
  HEDDLE_RT_RETURN_IF_ERROR(library->find(#symbol, driver.member));
  HEDDLE_CUDA_DRIVER_FUNCTIONS(X)
#undef X
  return driver;
}

} // namespace heddle::runtime::cuda
