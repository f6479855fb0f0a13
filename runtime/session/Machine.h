//===- Machine.h - The devices that this machine can run --------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_MACHINE_H
#define HEDDLE_RT_SESSION_MACHINE_H

#include "heddle_rt/status.h"

#include <cstdint>

namespace heddle::runtime {

/// Returns an error if `devices` devices of `bytesPerDevice` bytes each need
/// more memory than this machine has. Touching that much memory would end the
/// process without a message.
Status checkMemory(int64_t devices, double bytesPerDevice);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_MACHINE_H
