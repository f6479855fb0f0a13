//===- Padding.h - The rows beyond the end of a dimension -------*- C++ -*-===//
//
// Padding: if the size S of a dimension is no multiple of the number of
// devices, some devices hold rows beyond S. Their content is tracked from op to
// op, and decides where they have to be masked.
//
// Example: with f padded, gelu(x w1) has zero padding if w1 has, because a
// product is linear in w1 and gelu(0) = 0; exp of it holds ones, and has to be
// masked before a sum over f.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_LOCALIZE_PADDING_H
#define HEDDLE_LIB_SHARD_LOCALIZE_PADDING_H

#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

enum class Padding { Zero, Finite, Unknown };

/// One entry a dimension; Zero for dimensions without padding.
using PaddingOfDims = llvm::SmallVector<Padding, 4>;

/// An operand's dimensions that must be masked before an op.
struct OperandMask {
  unsigned operand;
  llvm::SmallVector<int64_t, 2> dims;
  PaddingValue value;
};

/// Whether some device holds padding along a factor.
bool isPadded(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes,
              MeshAttr mesh);

/// The masks that make the op's split sums and maxima right. For a sum, all
/// operands of one linear group that the factor runs over must be zero in the
/// padding, all others finite. Emits an error on the op if no mask can help.
mlir::FailureOr<llvm::SmallVector<OperandMask>>
findMasks(mlir::Operation *op, const ShardingRule &rule, const FactorAxes &axes,
          MeshAttr mesh, llvm::ArrayRef<PaddingOfDims> operands);

/// The padding of the results, given that of the operands (after masking).
llvm::SmallVector<PaddingOfDims>
inferPadding(mlir::Operation *op, const ShardingRule &rule,
             const FactorAxes &axes, MeshAttr mesh,
             llvm::ArrayRef<PaddingOfDims> operands);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_LOCALIZE_PADDING_H
