//===- Padding.h - The rows beyond the end of a dimension -------*- C++ -*-===//
//
// Padding: if the size S of a dimension is no multiple of the number of
// devices, some devices hold rows beyond S. The content of these rows is
// tracked from op to op and decides where they must be masked.
//
// Example with f padded: gelu(x w1) has zero padding if w1 has, because a
// product is linear in w1 and gelu(0) = 0. exp(x w1) has ones as padding, which
// must be masked before a sum over f.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_LOCALIZE_PADDING_H
#define HEDDLE_LIB_SHARD_LOCALIZE_PADDING_H

#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// What padding may hold: only zeros, only finite numbers, or anything.
enum class Padding { Zero, Finite, Unknown };

/// One entry a dimension; Zero for dimensions without padding.
using PaddingOfDims = llvm::SmallVector<Padding, 4>;

/// A mask that an operand needs before its op.
struct OperandMask {
  unsigned operand;
  llvm::SmallVector<int64_t, 2> dims;
  PaddingValue value;
};

/// Returns whether some device holds padding of a dimension of this size, split
/// over these axes.
bool isPadded(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes,
              MeshAttr mesh);

/// Returns the masks that keep padding out of the op's split sums and maxima.
/// For a sum over a factor, there must be a linear group whose operands have
/// zero padding along the factor, while all other operands have finite padding.
/// Emits an error on the op if no mask achieves this.
mlir::FailureOr<llvm::SmallVector<OperandMask>>
findMasks(mlir::Operation *op, const ShardingRule &rule, const FactorAxes &axes,
          MeshAttr mesh, llvm::ArrayRef<PaddingOfDims> operands);

/// Returns the padding of the results, given the padding of the operands after
/// masking.
llvm::SmallVector<PaddingOfDims>
inferPadding(mlir::Operation *op, const ShardingRule &rule,
             const FactorAxes &axes, MeshAttr mesh,
             llvm::ArrayRef<PaddingOfDims> operands);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_LOCALIZE_PADDING_H
