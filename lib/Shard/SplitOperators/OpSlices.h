//===- OpSlices.h - Runs one op on a part of a factor -----------*- C++ -*-===//
//
// A slice of a factor is a device in time: an op runs on it as its localization
// says for a device that has this part of the factor.
//
// Example: the slice of 2 elements from 3 on of b of heddle.contract
// [bh, hf -> bf] on 8x6 and 6x4 is the same op on 2x6 and 6x4. A
// heddle.dropout of 8x6 has the offsets 3, 0 and the global shape 8x6.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_SPLITOPERATORS_OPSLICES_H
#define HEDDLE_LIB_SHARD_SPLITOPERATORS_OPSLICES_H

#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// A slice of an op's factor.
struct FactorSlice {
  unsigned factor = 0;
  int64_t index = 0;  ///< the number of the slice
  int64_t offset = 0; ///< its first element
};

/// The results of an op on a slice.
struct SliceResults {
  llvm::SmallVector<mlir::Value> values;
  /// The op cannot run slice by slice: its localization asks for data of other
  /// slices. The values are then without meaning.
  bool needsOthers = false;
};

/// Builds the op on a slice of a factor, with the given operands and types of
/// results. The op that makes a result gets the heddle.factors and
/// heddle.priority of `op`, and no pin. Fails if the op's localization fails.
mlir::FailureOr<SliceResults> runOnSlice(mlir::OpBuilder &builder,
                                         mlir::Operation *op,
                                         mlir::ValueRange operands,
                                         mlir::TypeRange types,
                                         const FactorSlice &slice);

/// Builds a slice of the tensor that `maker` makes of scalars (isFreeTensor).
/// `operands` are these scalars, `type` is the slice's type, and `offset` its
/// first row along `dim`. Returns null if the tensor can only be made whole, as
/// a constant of different numbers.
mlir::Value makeFreeSlice(mlir::OpBuilder &builder, mlir::Operation *maker,
                          mlir::ValueRange operands, mlir::Type type,
                          int64_t dim, int64_t index, int64_t offset);

/// Returns whether the factor is summed, and the op adds the sum to this
/// operand, the accumulator: the op is linear in it together with an operand
/// that the factor runs over, but the factor does not run over it.
bool isAccumulator(const ShardingRule &rule, unsigned factor, unsigned operand);

/// Returns the dimension that the factor runs over, if there is one.
std::optional<int64_t> findDim(const TensorFactors &tensor, unsigned factor);

/// Returns the type in which the op's partial sums are made and added: f32 for
/// products and sums of narrow floats, otherwise the type of its result.
mlir::RankedTensorType getSumType(mlir::Operation *op,
                                  mlir::RankedTensorType type);

/// Builds the sum or maximum of two slices' results. `kind` is Sum or Max.
mlir::Value combineSlices(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value a, mlir::Value b, FactorKind kind);

/// Copies the pin and the priority of a replaced result to its replacement.
void movePin(mlir::OpResult from, mlir::Value to);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_SPLITOPERATORS_OPSLICES_H
