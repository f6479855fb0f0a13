//===- CombineParts.h - Reductions over devices -----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_RULES_COMBINEPARTS_H
#define HEDDLE_LIB_SHARD_RULES_COMBINEPARTS_H

#include "StructuredBodies.h"

namespace heddle {

/// Combines each device's result `part` of a reduction of kind Combine into the
/// result over all devices. Extrema and boolean `and` and `or` become a maximum
/// over the devices. Any other reduction, such as a product, combines one part
/// after the other in the order of the devices, so that every device computes
/// the same bits.
mlir::Value combineParts(mlir::Value part, mlir::Operation *combiner,
                         Localizer &localizer,
                         llvm::ArrayRef<unsigned> factors);

/// As above, for a reduction `op` with several results.
llvm::SmallVector<mlir::Value> combineParts(mlir::ValueRange parts,
                                            mlir::linalg::LinalgOp op,
                                            Localizer &localizer,
                                            llvm::ArrayRef<unsigned> factors);

/// Returns whether combining a start value several times equals combining it
/// once. True of a maximum, false of a sum or a product. It matters because
/// every device starts from the accumulator.
bool isIdempotent(mlir::Operation *combiner);

/// Returns whether the first accumulator is known not to start from NaN. Then
/// the parts of a reduction that ignores NaN (arith.maxnumf) are not NaN
/// either, and a maximum over the devices combines them.
bool startsFromNumbers(mlir::linalg::LinalgOp op);

/// Returns `accumulator` on the first of the devices among which the factors
/// are split, and `neutral` on all others.
mlir::Value startOnce(mlir::Value accumulator, mlir::TypedAttr neutral,
                      Localizer &localizer, llvm::ArrayRef<unsigned> factors);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RULES_COMBINEPARTS_H
