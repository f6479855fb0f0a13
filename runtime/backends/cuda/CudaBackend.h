//===- CudaBackend.h - Ranks on an NVIDIA GPU -------------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_CUDABACKEND_H
#define HEDDLE_RT_BACKENDS_CUDA_CUDABACKEND_H

#include "backends/cuda/driver/Card.h"
#include "device/Backend.h"

namespace heddle::runtime::cuda {

/// Makes a backend whose GPU is reached by these libraries. All ranks of a
/// session are on the first GPU.
std::unique_ptr<Backend>
makeBackend(std::function<Expected<Libraries>()> loadLibraries);

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_CUDABACKEND_H
