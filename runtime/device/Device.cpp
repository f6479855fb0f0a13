//===- Device.cpp - One rank ----------------------------------------------===//

#include "device/Device.h"
#include "kernels/AttentionLibrary.h"
#include "kernels/MatmulLibrary.h"

using namespace heddle::runtime;

heddle_rt_device::heddle_rt_device(int32_t rank, int cores, bool spin)
    : rank(rank), pool(cores, spin),
      matmul(std::make_unique<MatmulLibrary>(pool)),
      attention(std::make_unique<AttentionLibrary>(pool)) {}

heddle_rt_device::~heddle_rt_device() = default;

size_t heddle_rt_device::scratchBytes() const {
  return matmul->scratchBytes() + attention->scratchBytes();
}

heddle_rt_status heddle_rt_device::fail(Status status) {
  if (error.ok()) {
    error = std::move(status);
    errorTime = nanoseconds();
    if (communicator)
      communicator->abort(
          Status::error(concat("device ", rank, ": ", error.message())));
  }
  return 1;
}
