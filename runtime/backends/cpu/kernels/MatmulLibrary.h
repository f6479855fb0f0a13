//===- MatmulLibrary.h - Matrix products of one device ----------*- C++ -*-===//
//
// Matrix products by oneDNN. The code that calls oneDNN is in a library of its
// own, libheddle_onednn.so (backends/cpu/onednn), which is opened when a device
// is made. So processes that compute on a GPU need no oneDNN.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CPU_KERNELS_MATMULLIBRARY_H
#define HEDDLE_RT_BACKENDS_CPU_KERNELS_MATMULLIBRARY_H

#include "heddle_rt/abi.h"
#include "support/OpenPart.h"

#include <cstddef>
#include <memory>

namespace heddle::runtime {

class ThreadPool;

class MatmulLibrary {
public:
  virtual ~MatmulLibrary();

  virtual Status run(const heddle_rt_matmul_desc &desc, const void *a,
                     const void *b, void *c, const void *bias) = 0;
  virtual size_t scratchBytes() const = 0;
};

/// The table of libheddle_onednn.so, its symbol `heddle_onednn_table`. A change
/// of this struct, or of a class that the library shares with libheddle_rt,
/// needs a new version.
struct OneDnnTable : PartVersion {
  static constexpr uint32_t current = 1;
  std::unique_ptr<MatmulLibrary> (*makeMatmulLibrary)(ThreadPool &pool);
};

/// Makes the products of a device with these threads. If libheddle_onednn.so
/// cannot be opened, each product returns an error that says why. A program
/// without products runs without the library.
std::unique_ptr<MatmulLibrary> makeMatmulLibrary(ThreadPool &pool);

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_KERNELS_MATMULLIBRARY_H
