//===- SumRegion.h - Work behind sums that could be split -------*- C++ -*-===//
//
// Devices that sum a value by an all-reduce repeat all work behind it. A region
// is the work around such sums that could run on a part of the rows instead:
// cheap ops, each with the factor that would be split. It is grown from the
// sums, and decides nothing. ScatterSums decides which of its ops are split.
//
// Example: x = all-reduce of y; z = norm(x); c = z W. The region has the sum y
// along its rows, and the norm with the factor of the rows, but not the
// product.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_SCATTERSUMS_SUMREGION_H
#define HEDDLE_LIB_SHARD_SCATTERSUMS_SUMREGION_H

#include "heddle/Sharding/StatedFactors.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// The data of a block that the search for regions reads.
struct SumBlock {
  mlir::Block &block;
  MeshRef mesh;
  const OpFactors &factors;
  const PartialSums &sums;
};

struct SumRegion {
  /// The axes over which all sums of the region are partial.
  Axes axes;
  /// The sums, each with the dimension that would be split.
  llvm::MapVector<mlir::Value, unsigned> sums;
  /// The ops that could be split, each with its factor.
  llvm::MapVector<mlir::Operation *, unsigned> ops;
};

/// Returns the op's factors with the axes of the region added to its factor.
FactorAxes getSplitFactors(const SumRegion &region, mlir::Operation *op,
                           const OpFactors &factors);

/// Returns the regions of a block. No op and no sum is in two of them. Every
/// region has ops, and a value that a larger computation, such as a product,
/// reads: gradients, which only the optimizer reads, have no region.
std::vector<SumRegion> findSumRegions(const SumBlock &block);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_SCATTERSUMS_SUMREGION_H
