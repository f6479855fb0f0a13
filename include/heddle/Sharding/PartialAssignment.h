//===- PartialAssignment.h - What is settled before propagation -*- C++ -*-===//

#ifndef HEDDLE_SHARDING_PARTIALASSIGNMENT_H
#define HEDDLE_SHARDING_PARTIALASSIGNMENT_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// The part of an assignment that a plan, a user or a planner states;
/// propagation decides the rest. readAssignment makes one of a module's
/// attributes. A planner fills in its own: the module needs no attributes.
struct PartialAssignment {
  /// The axes of each factor of an op; nullopt for a factor that is open.
  struct Factors {
    llvm::SmallVector<std::optional<Axes>> axes;
    int64_t priority = 0; ///< others hear of the lower priority first
  };
  /// How a value lies, exactly.
  struct Statement {
    ShardingAttr sharding;
    int64_t priority = 0;
  };

  llvm::MapVector<mlir::Operation *, Factors> operators;
  /// Results of ops, as the ops around them see them.
  llvm::MapVector<mlir::Value, Statement> pins;
  llvm::DenseMap<mlir::BlockArgument, Statement> arguments;
  /// Results of functions, by the operand of the function's return.
  llvm::DenseMap<mlir::OpOperand *, Statement> results;
  /// Variables that are stored so and not otherwise.
  llvm::DenseMap<mlir::StringAttr, ShardingAttr> storage;
  /// Variables that are stored over these axes beside those of their uses.
  llvm::DenseMap<mlir::StringAttr, DimensionAxes> storageAxes;
  GradientReduction gradientReduction = GradientReduction::Step;
};

/// The partial assignment that a module's attributes state: heddle.factors,
/// heddle.pin, heddle.priority, the heddle.sharding of arguments and results,
/// the storage and heddle.storage_axes of variables, heddle.reduce_gradients.
/// Errors, on the op: a factor that the op lacks, pins of another number than
/// the op's results, and what else the attributes alone show to be wrong.
mlir::FailureOr<PartialAssignment> readAssignment(mlir::ModuleOp module,
                                                  MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_SHARDING_PARTIALASSIGNMENT_H
