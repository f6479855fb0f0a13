//===- CombineParts.h - Reductions over devices -----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_RULES_COMBINEPARTS_H
#define HEDDLE_LIB_SHARD_RULES_COMBINEPARTS_H

#include "StructuredBodies.h"

namespace heddle {

/// Combines the devices' results of a reduction of kind Combine. Extrema, and,
/// or are combined by a maximum over the devices. All other reductions, as
/// products, combine one part after the other in the order of the devices, so
/// that every device computes the same bits.
mlir::Value combineParts(mlir::Value part, mlir::Operation *combiner,
                         Localizer &localizer,
                         llvm::ArrayRef<unsigned> factors);

/// The same for a reduction to several results.
llvm::SmallVector<mlir::Value> combineParts(mlir::ValueRange parts,
                                            mlir::linalg::LinalgOp op,
                                            Localizer &localizer,
                                            llvm::ArrayRef<unsigned> factors);

/// Whether combining a start several times equals combining it once: true of a
/// maximum, false of a sum or a product. Every device starts from the
/// accumulator.
bool isIdempotent(mlir::Operation *combiner);

/// Whether the first accumulator is known not to start from NaN. Then the parts
/// of a reduction that ignores NaN (arith.maxnumf) are not NaN either, and a
/// maximum over the devices combines them.
bool startsFromNumbers(mlir::linalg::LinalgOp op);

/// `accumulator` on the first device, `neutral` on all others among which the
/// factors are split.
mlir::Value startOnce(mlir::Value accumulator, mlir::TypedAttr neutral,
                      Localizer &localizer, llvm::ArrayRef<unsigned> factors);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RULES_COMBINEPARTS_H
