//===- Layers.h - Ops at the same place of equal layers ---------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_LAYERS_H
#define HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_LAYERS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace heddle {

/// Returns a hash of an op's computation: two ops share it if they compute the
/// same from other operands. Leaves out names and numeric attributes, because a
/// number may seed an op's random numbers.
uint64_t getOpShape(mlir::Operation *op);

/// Unites the indices of ops that have the same place in equal layers: the ops
/// of a program repeat with some period, as their kinds, types and attributes
/// say. Names do not count. The longest repetition of the program is found
/// first, then the longest one in the rest, so forward pass, backward pass and
/// update each have a period of their own. Index i stands for ops[i].
/// `plannedAs` has a number for each op, which differs if a plan treats two ops
/// differently. Layers that differ in one of their numbers are not united.
void uniteLayers(llvm::ArrayRef<mlir::Operation *> ops,
                 llvm::ArrayRef<uint64_t> plannedAs,
                 llvm::EquivalenceClasses<unsigned> &classes);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_LAYERS_H
