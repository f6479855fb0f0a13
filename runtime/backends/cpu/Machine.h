//===- Machine.h - The devices that this machine can run --------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_MACHINE_H
#define HEDDLE_RT_BACKENDS_CPU_MACHINE_H

#include "heddle_rt/status.h"

#include <cstdint>

namespace heddle::runtime {

/// An error if the cores of this machine cannot serve so many devices.
Status checkCores(int64_t devices);

/// An error if the devices, of so many bytes each, need more memory than this
/// machine has: touching it would end the process without a word.
Status checkMemory(int64_t devices, double bytesPerDevice);

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_MACHINE_H
