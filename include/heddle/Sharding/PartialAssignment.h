//===- PartialAssignment.h - Statements before propagation ------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_PARTIALASSIGNMENT_H
#define HEDDLE_SHARDING_PARTIALASSIGNMENT_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// The part of an assignment that a plan, a user or a planner states.
/// Propagation completes it. readAssignment reads it from a module's
/// attributes. A planner fills it in directly, for a module without attributes.
struct PartialAssignment {
  /// The axes of each factor of an op; nullopt for an open factor.
  struct Factors {
    llvm::SmallVector<std::optional<Axes>> axes;
    int64_t priority = 0; ///< the lowest number is propagated first
  };
  /// The sharding that a value, argument or result must have.
  struct Statement {
    ShardingAttr sharding;
    int64_t priority = 0;
  };

  llvm::MapVector<mlir::Operation *, Factors> operators;
  /// Pins of ops' results: the shardings in which other ops use them.
  llvm::MapVector<mlir::Value, Statement> pins;
  llvm::DenseMap<mlir::BlockArgument, Statement> arguments;
  /// Results of functions, keyed by the operand of the function's return.
  llvm::DenseMap<mlir::OpOperand *, Statement> results;
  /// The whole storage of variables for which it is fixed.
  llvm::DenseMap<mlir::StringAttr, ShardingAttr> storage;
  /// Axes that are added to those that a variable's uses want.
  llvm::DenseMap<mlir::StringAttr, DimensionAxes> storageAxes;
  GradientReduction gradientReduction = GradientReduction::Step;
};

/// Returns the partial assignment that a module's attributes state:
/// heddle.factors, heddle.pin, heddle.priority, the heddle.sharding of
/// arguments and results, the storage and heddle.storage_axes of variables,
/// heddle.reduce_gradients. Errors, on the op: a factor that the op lacks, pins
/// of another number than the op's results, and all other mistakes that can be
/// seen from an op's own attributes.
mlir::FailureOr<PartialAssignment> readAssignment(mlir::ModuleOp module,
                                                  MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_SHARDING_PARTIALASSIGNMENT_H
