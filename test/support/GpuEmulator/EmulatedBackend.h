//===- EmulatedBackend.h - Ranks whose kernels are a GPU's ------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_GPUEMULATOR_EMULATEDBACKEND_H
#define HEDDLE_TEST_SUPPORT_GPUEMULATOR_EMULATEDBACKEND_H

#include "GpuEmulator.h"

namespace heddle {

namespace runtime {
class Backend;
}

/// Returns a backend for SessionOptions::backend: ranks that launch the kernels
/// of `emulator`. All other calls, memory and collectives are those of CPU
/// ranks. `emulator` must outlive the sessions.
std::unique_ptr<runtime::Backend> makeEmulatedBackend(GpuEmulator &emulator);

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_GPUEMULATOR_EMULATEDBACKEND_H
