//===- RankStreams.h - The streams and memory of a rank ---------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_DRIVER_RANKSTREAMS_H
#define HEDDLE_RT_BACKENDS_CUDA_DRIVER_RANKSTREAMS_H

#include "backends/cuda/driver/Card.h"

#include <span>

namespace heddle::runtime::cuda {

/// The part of a rank's device that products and attentions use: its streams,
/// memory, and the library's kernels.
class RankStreams {
public:
  virtual Card &gpu() const = 0;
  /// Returns the CUDA stream of a program's stream.
  virtual Stream stream(int32_t number) const = 0;
  /// Returns `pointer` if it points into the device's memory. Otherwise these
  /// bytes are a constant of the program: returns the address of a copy in the
  /// device's memory.
  virtual Expected<const void *> onDevice(const void *pointer,
                                          size_t bytes) = 0;
  /// Returns memory of the device that lives as long as it does. Any thread may
  /// call it.
  virtual Expected<Address> reserve(size_t bytes) = 0;
  /// Launches a kernel of the library on blocks of 128 threads. Each argument
  /// has 8 bytes.
  virtual Status launchLibrary(int32_t stream, const char *kernel,
                               int64_t blocks,
                               std::span<const uint64_t> arguments) = 0;
  Status check(Result result, const char *function) const {
    return gpu().driver().check(result, function);
  }

protected:
  ~RankStreams() = default;
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_DRIVER_RANKSTREAMS_H
