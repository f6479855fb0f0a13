//===- KernelTarget.h - The numbers that suit a machine ---------*- C++ -*-===//
//
// The tuning parameters of kernels: how reductions are cut into blocks, which
// ops share a kernel, and which values a kernel keeps in memory. They differ
// between CPUs and GPUs. DecomposeOps, FormKernels and KernelPlan take all such
// numbers from here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_KERNELPLAN_KERNELTARGET_H
#define HEDDLE_LIB_LOWER_KERNELPLAN_KERNELTARGET_H

#include "mlir/IR/Operation.h"
#include <cstdint>

namespace heddle::lower {

/// The default values are those of CPUs.
struct KernelTarget {
  bool isGpu = false;

  //===--------------------------------------------------------------------===//
  // Reductions over rows (DecomposeOps)
  //===--------------------------------------------------------------------===//

  /// The first stage has at most this number of blocks. More cores would gain
  /// little, and the partial sums of every block cost traffic.
  int64_t mostReductionBlocks = 64;
  /// The fewest rows of a block. With 32, partial sums are at most 1/32 of the
  /// elements read, with 3 a third.
  int64_t leastBlockRows = 32;
  /// Up to `fewRows` rows are summed in one stage if they have at least
  /// `manyColumns` columns: the columns alone give enough parallel work.
  int64_t fewRows = 64, manyColumns = 4096;
  /// A sum of a whole tensor with more elements first sums trailing dimensions,
  /// so that `fewRows` rows or more remain for the second stage.
  int64_t largeSum = 1 << 14;

  //===--------------------------------------------------------------------===//
  // Ops that share a kernel (FormKernels)
  //===--------------------------------------------------------------------===//

  /// The largest distance, in ops of the program, over which two ops are
  /// merged: about a layer.
  unsigned near = 48;
  unsigned mostOps = 256; ///< of a kernel
  /// A merger must leave `enoughRows` rows, which run in parallel, unless the
  /// kernel has at most `littleWork` iterations.
  int64_t enoughRows = 8, littleWork = 4096;
  /// A merger that takes row dimensions from a cluster with sums must leave
  /// rows of at most this number of iterations. Longer rows would keep more
  /// values than threads can share.
  int64_t mostRowWork = INT64_MAX;
  /// Readers of one tensor are merged if it has at least this number of
  /// elements.
  int64_t largeOperand = 1024;
  /// A producer of at most this number of simple ops is repeated for each
  /// reader.
  int64_t fewOps = 4;
  /// Dimensions become rows as long as `longRow` iterations are left inside a
  /// row. If there would be fewer than `manyRows` rows, `shortRow` iterations
  /// are enough.
  int64_t longRow = 256, shortRow = 16, manyRows = 64;

  //===--------------------------------------------------------------------===//
  // The loops of a kernel (KernelPlan)
  //===--------------------------------------------------------------------===//

  /// Column mode: a chunk has the rows divided by `chunks`, but at least
  /// `leastChunk` and at most `mostChunk` rows, in multiples of `leastChunk`.
  int64_t chunks = 16, leastChunk = 64, mostChunk = 2048;
  /// A value is computed again, instead of kept, if it costs at most
  /// `cheapCost` (an addition costs 1) and has at most `cheapReads` operands.
  int64_t cheapCost = 6;
  size_t cheapReads = 4;
  /// A value is computed again at any cost if one row of it has more elements.
  int64_t mostKeptElements = INT64_MAX;
  /// The work that is worth a thread of its own: about ten microseconds of
  /// vectorized work, several times the cost of waking a thread.
  int64_t worthAThread = 1 << 17;
  /// A row of scratch has at most this number of elements.
  int64_t mostScratchElements = 1 << 19;

  /// Returns the target of the module that contains the op.
  static KernelTarget of(mlir::Operation *op);
  static KernelTarget gpu();
};

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_KERNELPLAN_KERNELTARGET_H
