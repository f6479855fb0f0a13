//===- ShardingAssignment.h - Axes for every op and value -------*- C++ -*-===//
//
// The decision behind heddle-propagate-shardings as a function: from a partial
// assignment to a complete one, without a change of IR. A planner calls it for
// each assignment that it considers and compares what comes out.
//
// Example: a planner splits the factor f of y = heddle.contract [bsf, fh ->
// bsh] x, w over tp. The function finds that x lies as [{}, {}, {"tp"}], that
// the gelu that makes x is split over tp, too, and that w is stored as [{"tp"},
// {}].
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SHARDING_SHARDINGASSIGNMENT_H
#define HEDDLE_SHARDING_SHARDINGASSIGNMENT_H

#include "heddle/Sharding/PartialAssignment.h"
#include "heddle/Sharding/Propagation.h"

namespace heddle {

/// The statement that gave a value an axis first.
struct Seed {
  enum class Kind { Pin, Argument, Result, Storage };
  Kind kind = Kind::Pin;
  mlir::Operation *op = nullptr; ///< the pinned op, the function, the variable
  unsigned number = 0;           ///< of the argument or result
};

/// An assignment of mesh axes to all ops and values of a module.
struct ShardingAssignment {
  /// The factors of every op that is partitioned by its rule, the axes that
  /// every value wants, and for each of these axes where it comes from.
  Propagation graph;
  /// By the cell of the graph and the axis.
  llvm::DenseMap<std::pair<unsigned, mlir::StringAttr>, Seed> seeds;
  /// Of control flow: a sharding for each class of values that it carries
  /// (getCarriedValues).
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<ShardingAttr, 2>>
      carried;
  llvm::MapVector<mlir::BlockArgument, ShardingAttr> arguments;
  /// Results of functions, by the operand of the function's return.
  llvm::MapVector<mlir::OpOperand *, ShardingAttr> results;
  /// Of variables. Gradients may be stored as partial sums.
  llvm::MapVector<mlir::StringAttr, ShardingAttr> storage;

  /// The axes of the op's factors; none for an op that has no rule or passes
  /// values on (loads, stores, control flow, calls).
  llvm::ArrayRef<Axes> getFactors(mlir::Operation *op) const;
  /// The axes that the value wants for each dimension; none for a scalar.
  llvm::ArrayRef<Axes> getAxes(mlir::Value value) const;
};

/// Completes the assignment. Changes nothing in the module and reads no
/// attribute that speaks of shardings. Errors, on an op: a statement that its
/// op, its value or the mesh does not allow, and programs that cannot be
/// partitioned (recursion, regions of several blocks, calls of external
/// functions).
mlir::FailureOr<ShardingAssignment>
propagateShardings(mlir::ModuleOp module, MeshRef mesh,
                   const PartialAssignment &given);

} // namespace heddle

#endif // HEDDLE_SHARDING_SHARDINGASSIGNMENT_H
