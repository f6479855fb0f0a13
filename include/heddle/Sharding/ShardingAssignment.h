//===- ShardingAssignment.h - Axes for every op and value -------*- C++ -*-===//
//
// Makes a complete assignment of a partial one, without a change of IR. This is
// the decision of heddle-propagate-shardings. A planner calls it for each
// assignment that it considers, and compares the results.
//
// Example: a planner splits the factor f of y = heddle.contract [bsf, fh ->
// bsh] x, w over tp. The function finds that x has the sharding [{}, {},
// {"tp"}], that the gelu that makes x is split over tp, too, and that w is
// stored as [{"tp"}, {}].
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SHARDING_SHARDINGASSIGNMENT_H
#define HEDDLE_SHARDING_SHARDINGASSIGNMENT_H

#include "heddle/Sharding/PartialAssignment.h"
#include "heddle/Sharding/Propagation.h"

namespace heddle {

/// The statement that was the first to give an axis to a value.
struct Seed {
  enum class Kind { Pin, Argument, Result, Storage };
  Kind kind = Kind::Pin;
  mlir::Operation *op = nullptr; ///< the pinned op, the function, the variable
  unsigned number = 0;           ///< index of the argument or result
};

/// An assignment of mesh axes to all ops and values of a module.
struct ShardingAssignment {
  /// The factors of every op that is partitioned by its rule, the axes that
  /// every value wants, and the origin of each of these axes.
  Propagation graph;
  /// Keyed by the cell of the graph and the axis.
  llvm::DenseMap<std::pair<unsigned, mlir::StringAttr>, Seed> seeds;
  /// For an op of control flow, one sharding for each class of values that it
  /// carries (getCarriedValues).
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<ShardingAttr, 2>>
      carried;
  llvm::MapVector<mlir::BlockArgument, ShardingAttr> arguments;
  /// Results of functions, keyed by the operand of the function's return.
  llvm::MapVector<mlir::OpOperand *, ShardingAttr> results;
  /// Storage of variables. Gradients may be stored as partial sums.
  llvm::MapVector<mlir::StringAttr, ShardingAttr> storage;

  /// Returns the axes of the op's factors. Empty for an op that has no rule or
  /// only passes values on (loads, stores, control flow, calls).
  llvm::ArrayRef<Axes> getFactors(mlir::Operation *op) const;
  /// Returns the axes that the value wants for each dimension. Empty for a
  /// scalar.
  llvm::ArrayRef<Axes> getAxes(mlir::Value value) const;
};

/// Completes the assignment. Changes nothing in the module, and reads none of
/// its attributes on shardings. Errors, on an op: a statement that the op, the
/// value or the mesh does not allow, and a program that cannot be partitioned
/// (recursion, regions of several blocks, calls of external functions).
mlir::FailureOr<ShardingAssignment>
propagateShardings(mlir::ModuleOp module, MeshRef mesh,
                   const PartialAssignment &given);

} // namespace heddle

#endif // HEDDLE_SHARDING_SHARDINGASSIGNMENT_H
