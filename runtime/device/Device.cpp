//===- Device.cpp - One rank ----------------------------------------------===//

#include "device/Device.h"
#include "support/Message.h"

using namespace heddle::runtime;

Region::~Region() = default;
void Region::forbid(const uint8_t *, size_t) {}

heddle_rt_device::~heddle_rt_device() = default;

Status heddle_rt_device::launchKernel(int32_t, int32_t kernel,
                                      std::span<const uint64_t>) {
  return errorOf("expected a device with a list of kernels, to launch kernel ",
                 kernel);
}

Status heddle_rt_device::fusedMatmul(int32_t, const heddle_rt_matmul_desc &,
                                     heddle_rt_epilogue, const void *,
                                     const void *, void *, const void *,
                                     void *) {
  return Status::error("expected a GPU, whose library has epilogues of "
                       "products");
}

Status heddle_rt_device::useThread() { return Status::success(); }
Expected<bool> heddle_rt_device::beginRun(size_t) { return false; }
Status heddle_rt_device::endRun() { return Status::success(); }

heddle_rt_status heddle_rt_device::fail(Status status, CallPlace callPlace) {
  Status why;
  {
    std::lock_guard lock(errorMutex);
    if (failed.load(std::memory_order_relaxed))
      return 1;
    why = Status::error(concat("device ", rank, ": ", status.message()));
    firstError = std::move(status);
    firstErrorPlace = callPlace;
    firstErrorTime = nanoseconds();
    failed.store(true, std::memory_order_release);
  }
  if (!communicators.empty())
    communicators.front()->abort(why);
  dropWork();
  return 1;
}

CallPlace heddle_rt_device::errorPlace() const {
  std::lock_guard lock(errorMutex);
  return firstErrorPlace;
}

Status heddle_rt_device::error() const {
  std::lock_guard lock(errorMutex);
  return firstError;
}

int64_t heddle_rt_device::errorTime() const {
  std::lock_guard lock(errorMutex);
  return firstErrorTime;
}
