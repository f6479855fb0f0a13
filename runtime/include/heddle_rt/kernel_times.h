//===- kernel_times.h - Times of single kernels of a GPU --------*- C++ -*-===//

#ifndef HEDDLE_RT_KERNEL_TIMES_H
#define HEDDLE_RT_KERNEL_TIMES_H

#include "heddle_rt/status.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace heddle::runtime {

struct KernelTime {
  std::string symbol;
  double seconds; ///< of a launch
  int64_t bytes;  ///< that a launch must read and write; -1: not known
};

struct KernelTimes {
  std::string device; ///< name of the GPU
  /// The bytes that a copy within the device's memory reads and writes in a
  /// second: a bound for kernels.
  double bandwidth;
  std::vector<KernelTime> kernels;
};

/// Runs each kernel of an artifact for a GPU alone, several times, on memory
/// that is zero, and measures the time with the GPU's clock. Each launch takes
/// another copy of its buffers, so that it does not find them in the cache. The
/// time of a small kernel is that of its launch. Errors: those of a session,
/// and an artifact for CPUs.
Expected<KernelTimes> timeKernels(const std::filesystem::path &artifact);

} // namespace heddle::runtime

#endif // HEDDLE_RT_KERNEL_TIMES_H
