//===- CombineParts.h - Reductions over devices -----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_RULES_COMBINEPARTS_H
#define HEDDLE_LIB_SHARD_RULES_COMBINEPARTS_H

#include "StructuredBodies.h"

namespace heddle {

/// All devices' results of a reduction of kind Combine out of each device's
/// own: extrema, or, and by a maximum over the devices; all others, products
/// among them, one part after the other in the order of the devices, so that
/// every device computes the same bits.
mlir::Value combineParts(mlir::Value part, mlir::Operation *combiner,
                         Localizer &localizer,
                         llvm::ArrayRef<unsigned> factors);

/// The same for a reduction to several results.
llvm::SmallVector<mlir::Value> combineParts(mlir::ValueRange parts,
                                            mlir::linalg::LinalgOp op,
                                            Localizer &localizer,
                                            llvm::ArrayRef<unsigned> factors);

/// Whether an accumulator that every device starts from counts as often as
/// once: that of a maximum does, that of a sum or a product does not.
bool isIdempotent(mlir::Operation *combiner);

/// Whether the first accumulator is known to start from numbers alone. Parts of
/// a reduction that passes over what is no number (arith.maxnumf) are then
/// numbers, too, and a maximum over the devices combines them.
bool startsFromNumbers(mlir::linalg::LinalgOp op);

/// `accumulator` on the first device, `neutral` on all others among which the
/// factors are split.
mlir::Value startOnce(mlir::Value accumulator, mlir::TypedAttr neutral,
                      Localizer &localizer, llvm::ArrayRef<unsigned> factors);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RULES_COMBINEPARTS_H
