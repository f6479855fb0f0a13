//===- Backends.h - The backends of this build ------------------*- C++ -*-===//
//
// Each backend lies in a folder of its own and shows one function here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_BACKENDS_H
#define HEDDLE_RT_BACKENDS_BACKENDS_H

#include "device/Backend.h"

namespace heddle::runtime {

const Backend &cpuBackend();  ///< backends/cpu
const Backend &cudaBackend(); ///< backends/cuda

/// Implements findGpu() of device/Backend.h.
std::string describeGpu();

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_BACKENDS_H
