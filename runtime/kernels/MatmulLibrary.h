//===- MatmulLibrary.h - Matrix products of one device ----------*- C++ -*-===//
//
// Matrix products by oneDNN, which is called single-threaded from the device's
// own cores. A product is cut into tiles by its sizes alone, so the bits do not
// depend on the number of cores. oneDNN's primitives for the tiles' shapes are
// kept with the descriptor, so a call only sets pointers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_KERNELS_MATMULLIBRARY_H
#define HEDDLE_RT_KERNELS_MATMULLIBRARY_H

#include "heddle_rt/abi.h"
#include "heddle_rt/status.h"

#include <cstddef>
#include <memory>

namespace heddle::runtime {

class ThreadPool;

class MatmulLibrary {
public:
  explicit MatmulLibrary(ThreadPool &pool);
  ~MatmulLibrary();

  Status run(const heddle_rt_matmul_desc &desc, const void *a, const void *b,
             void *c, const void *bias);
  size_t scratchBytes() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_KERNELS_MATMULLIBRARY_H
