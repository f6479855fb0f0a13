//===- StructuredBodies.h - Bodies of structured ops ------------*- C++ -*-===//
//
// The body of a structured op may ask for its place (linalg.index), combines
// what it reads with an accumulator, and may do what traps on nonsense (an
// integer division by zero, a read beyond the end of a tensor). On one device
// of several its loops run over a part of the global ones, and beyond their
// end over padding, of which nothing may count and nothing may trap.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_RULES_STRUCTUREDBODIES_H
#define HEDDLE_LIB_SHARD_RULES_STRUCTUREDBODIES_H

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle {

/// accumulator = combine(accumulator, contribution), which is what the body
/// yields for its only result.
struct Reduction {
  mlir::Operation *combiner;
  mlir::OpOperand *contribution;
  /// How the parts of devices combine: Sum and Max as such, Combine by
  /// `combineParts` (CombineParts.h), Replicate not at all.
  FactorKind kind;
};
std::optional<Reduction> findReduction(mlir::linalg::LinalgOp op);

/// A reduction to several results, each of which is the accumulator or what the
/// iteration has: by one comparison for all (the place of the largest number),
/// or the larger or smaller of the two. Of equal ones, the first stays. So the
/// results of parts, in order, are reduced by the same ops.
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

/// The inputs whose product the body adds to the accumulator: nothing if it
/// adds anything else, or if a reduced loop runs over none of them (then the
/// same is added again and again). Each is used once.
std::optional<llvm::SmallVector<unsigned>>
findProduct(mlir::linalg::LinalgOp op, const Reduction &reduction);

/// Of an op without reductions: the sets of inputs in which the body's only
/// result is linear together, all others held, and whether it divides. Inputs
/// are numbered as operands.
struct LinearBody {
  llvm::SmallVector<LinearGroup, 2> groups;
  bool divides = false;
};
LinearBody findLinearGroups(mlir::linalg::LinalgOp op);

/// A structured op without reductions over one tensor.
mlir::Value
mapElements(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value tensor,
            llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                           mlir::Value element)>
                body);

/// Makes indices global, lets no padding of the loops in `masked` contribute,
/// and no padding trap. `local` is a clone for one device of a global op of
/// those loops, which have the numbers of the rule's factors; returns what has
/// taken its place.
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
