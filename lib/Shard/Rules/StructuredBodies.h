//===- StructuredBodies.h - Bodies of structured ops ------------*- C++ -*-===//
//
// Bodies of structured ops on one device of several. A body may read its loops'
// indices (linalg.index), combine values with an accumulator, and trap (an
// integer division by zero, a read beyond the end of a tensor). On one device
// the loops run over a part of the global ones, and beyond their end over
// padding. Padding must neither count in the result nor trap.
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
  /// How the parts of devices combine: Sum and Max as such, Combine by
  /// `combineParts` (CombineParts.h), Replicate not at all.
  FactorKind kind;
};
std::optional<Reduction> findReduction(mlir::linalg::LinalgOp op);

/// A reduction to several results that chooses one iteration, as the place of
/// the largest number does. Each result stays the accumulator or becomes the
/// iteration's value: by one comparison for all results, or as the larger or
/// smaller of the two. Of equal values the first stays. So the same ops reduce
/// the devices' parts, in order.
struct Choice {
  mlir::Operation *comparison = nullptr;
  llvm::SmallVector<mlir::Operation *> results; ///< selects and extrema
  llvm::SmallVector<mlir::Value> taken;
};
std::optional<Choice> findChoice(mlir::linalg::LinalgOp op);

/// Whether an integer's conversion to floating point (arith.sitofp, uitofp) is
/// finite whatever the integer is: i32 to f16 is not.
bool isFiniteForAll(mlir::Operation *conversion);

/// The loops that the op reduces over: results do not have them.
llvm::SmallVector<unsigned> getReducedLoops(mlir::linalg::LinalgOp op);

/// The inputs whose product the body adds to the accumulator, each used once.
/// Nothing if the body adds anything else, or if a reduced loop runs over none
/// of them (then the same product is added again and again).
std::optional<llvm::SmallVector<unsigned>>
findProduct(mlir::linalg::LinalgOp op, const Reduction &reduction);

/// The linearity of a body without reductions: the sets of inputs in which its
/// only result is linear together while all others are held, and whether it
/// divides. Inputs have the numbers of operands.
struct LinearBody {
  llvm::SmallVector<LinearGroup, 2> groups;
  bool divides = false;
};
LinearBody findLinearGroups(mlir::linalg::LinalgOp op);

/// Maps `body` over the elements of one tensor, by a structured op.
mlir::Value
mapElements(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value tensor,
            llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                           mlir::Value element)>
                body);

/// Makes a body right on one device. `local` is a clone of the global op, with
/// the device's operands; `loops` are the sizes of the global op's loops, which
/// have the numbers of the rule's factors. Indices become global, padding of
/// the loops in `masked` does not contribute, and no padding traps. Returns the
/// op that replaces `local`.
mlir::Operation *localizeBody(mlir::Operation *local,
                              llvm::ArrayRef<int64_t> loops,
                              Localizer &localizer,
                              llvm::ArrayRef<unsigned> masked);

/// The same for an integer division of whole tensors: `divisor` with ones in
/// its padding. Dimension i is run over by factor i.
mlir::Value guardDivisor(mlir::Operation *op, mlir::Value divisor,
                         Localizer &localizer);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RULES_STRUCTUREDBODIES_H
