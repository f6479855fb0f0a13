//===- StructuredBodies.h - Bodies of structured ops ------------*- C++ -*-===//
//
// Edits bodies of structured ops for one device of several. A body may read its
// loops' indices (linalg.index), combine values with an accumulator, and trap
// (an integer division by zero, a read beyond the end of a tensor). On one
// device, the loops run over a part of the global iterations and over padding
// beyond the last one. Padding must neither count in the result nor trap.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_RULES_STRUCTUREDBODIES_H
#define HEDDLE_LIB_SHARD_RULES_STRUCTUREDBODIES_H

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle {

/// A body that yields combine(accumulator, contribution) as its only result.
struct Reduction {
  mlir::Operation *combiner;
  mlir::OpOperand *contribution;
  /// How the devices' partial results are combined. Sum and Max: by an
  /// all-reduce. Combine: by `combineParts` (CombineParts.h). Replicate: not at
  /// all.
  FactorKind kind;
};
std::optional<Reduction> findReduction(mlir::linalg::LinalgOp op);

/// A reduction to several results that chooses one iteration. Example: argmax,
/// whose results are the largest number and its place. Each result keeps its
/// accumulator or takes the iteration's value: by a comparison shared by all
/// results, or as the larger or smaller of the two. Of equal values, the first
/// one stays. So the same ops combine the devices' parts, in the order of the
/// devices.
struct Choice {
  mlir::Operation *comparison = nullptr;
  llvm::SmallVector<mlir::Operation *> results; ///< selects and extrema
  llvm::SmallVector<mlir::Value> taken;
};
std::optional<Choice> findChoice(mlir::linalg::LinalgOp op);

/// Returns whether an integer's conversion to floating point (arith.sitofp,
/// uitofp) is finite for every integer of the type. Not so for i32 to f16.
bool isFiniteForAll(mlir::Operation *conversion);

/// Returns the loops that the op reduces over, which are those that index no
/// result.
llvm::SmallVector<unsigned> getReducedLoops(mlir::linalg::LinalgOp op);

/// Returns the inputs whose product the body adds to the accumulator, each used
/// once. Returns nothing if the body adds anything else. Returns nothing, too,
/// if no input depends on a reduced loop, which would add the same product
/// repeatedly.
std::optional<llvm::SmallVector<unsigned>>
findProduct(mlir::linalg::LinalgOp op, const Reduction &reduction);

/// The linearity of a body that has one result and no reduction.
struct LinearBody {
  /// The sets of inputs in which the result is jointly linear while all other
  /// inputs are fixed (see LinearGroup). Example: x * w + y * w has the groups
  /// {x, y} and {w}. An input has the number of its operand.
  llvm::SmallVector<LinearGroup, 2> groups;
  /// The body contains a floating-point division.
  bool divides = false;
};
LinearBody findLinearGroups(mlir::linalg::LinalgOp op);

/// Creates a linalg.generic that applies `body` to each element of `tensor`.
mlir::Value
mapElements(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value tensor,
            llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                           mlir::Value element)>
                body);

/// Edits the body of `local` for one device. `local` is a clone of the global
/// op with the device's operands. `loops` has the sizes of the global op's
/// loops; loop i is factor i of the op's rule. Indices become global, padding
/// of the loops in `masked` does not contribute, and no padding traps. Returns
/// the op that replaces `local`.
mlir::Operation *localizeBody(mlir::Operation *local,
                              llvm::ArrayRef<int64_t> loops,
                              Localizer &localizer,
                              llvm::ArrayRef<unsigned> masked);

/// Returns `divisor`, the operand of an elementwise integer division, with ones
/// in its padding. Factor i splits dimension i.
mlir::Value guardDivisor(mlir::Operation *op, mlir::Value divisor,
                         Localizer &localizer);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RULES_STRUCTUREDBODIES_H
