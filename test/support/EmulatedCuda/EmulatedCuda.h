//===- EmulatedCuda.h - A GPU and its libraries, emulated -------*- C++ -*-===//
//
// Functions of the CUDA driver, of cuBLASLt and of cuDNN that run on this CPU.
// Kernels run on the GpuEmulator. Work is queued and runs when somebody waits,
// in a random one of the orders that streams and events allow. Every argument
// that the real libraries would trust is checked.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_SUPPORT_EMULATEDCUDA_EMULATEDCUDA_H
#define HEDDLE_TEST_SUPPORT_EMULATEDCUDA_EMULATEDCUDA_H

#include "backends/cuda/driver/Card.h"
#include "test/support/GpuEmulator/GpuEmulator.h"

namespace heddle::emulated {

/// The functions of the emulated libraries.
runtime::cuda::Driver getDriver();
runtime::cuda::blas::CublasLt getCublasLt();
runtime::cuda::dnn::Cudnn getCudnn();

/// The equipment of a machine. It applies to libraries and devices that are
/// opened later.
struct Machine {
  int gpus = 1;
  int driverVersion = 13000;
  int major = 9, minor = 0; ///< compute capability
  size_t memoryBytes = size_t(1) << 30;
  /// The algorithms that cuBLASLt proposes for each product. The last one is
  /// the fastest.
  int algorithms = 1;
  size_t cublasLtVersion = 130000, cudnnVersion = 91900;
  size_t cudnnCudaVersion = 13000; ///< that cuDNN was built for
};
void setMachine(const Machine &machine);

/// Lets PTX modules that are loaded later find their kernels here, before those
/// that were provided earlier. The kernels of the runtime's own library need
/// not be provided.
void provideKernels(std::unique_ptr<GpuEmulator> kernels);

/// Chooses among the orders of streams.
void setOrder(uint64_t seed);

/// Returns the first fault since the last call, or an empty string: what a real
/// GPU would have ignored, or reported without its cause.
std::string takeFault();

/// Counts of the calls since the last query.
struct Counts {
  int64_t launches = 0, graphLaunches = 0, products = 0, attentions = 0;
  int64_t fastest = 0; ///< products by the fastest algorithm
  /// Products with a matrix whose columns do not all begin at multiples of 16
  /// bytes, which tensor cores read slowly.
  int64_t misaligned = 0;
};
Counts takeCounts();

} // namespace heddle::emulated

#endif // HEDDLE_TEST_SUPPORT_EMULATEDCUDA_EMULATEDCUDA_H
