//===- PlanVerifier.h - A plan against a program and a cluster --*- C++ -*-===//
//
// Finds every violation of a plan: against the operators, variables and batch
// of a program (a training step in phase autodiff, or any global program), and
// against the devices of a cluster. Knows neither the planner nor its solver,
// and changes no IR. Code that applies a plan takes the assignments of each
// operator from ResolvedPlan, so that only checked assignments are applied.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANVERIFIER_PLANVERIFIER_H
#define HEDDLE_PLANVERIFIER_PLANVERIFIER_H

#include "dialects/Rt/VariableMemory.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Sharding/FactorShardings.h"
#include "heddle/Support/Cluster.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

//===----------------------------------------------------------------------===//
// Violations
//===----------------------------------------------------------------------===//

/// What a plan violates.
enum class PlanRule {
  AxisSize,        ///< a positive number of devices
  AxisName,        ///< no name of a part of another axis
  Devices,         ///< no more devices than there are
  Axis,            ///< an axis of the mesh
  PipelineAxis,    ///< the axis of stages splits nothing else
  Model,           ///< its entries name operators and variables of this model
  Operator,        ///< a glob matches an operator
  Variable,        ///< a glob matches a variable
  Factor,          ///< a factor of an operator that the glob matches
  Rival,           ///< one most specific glob for each name
  SharedAxis,      ///< an axis splits one factor or dimension
  Divides,         ///< a split that can be written as a sharding
  Dimension,       ///< a dimension of a variable that the glob matches
  Slices,          ///< no more slices than elements
  SlicedAxis,      ///< a factor that runs in slices is not split
  SlicedParameter, ///< a factor that runs in slices cuts a parameter
  PinnedResult,    ///< a pinned operator has a result with named factors
  Effect,          ///< a priority is of operators that have entries
  Stages,          ///< as many stages for each device of the pipeline
  StageOfOperator, ///< one stage for each operator
  EmptyStage,      ///< an operator for each stage
  StageOrder,      ///< no operator reads a value of a later stage
  Schedule,        ///< the schedule can run the stages and micro-batches
  MicroBatches,    ///< a pipeline has several micro-batches
  SubBatches,      ///< no more sub-batches than rows
  Memory,          ///< variables fit into a device
  // Warnings.
  PredictedStep,   ///< the prediction is of this step
  PredictedMemory, ///< the prediction fits into a device
};

struct PlanProblem {
  PlanRule rule;
  bool isWarning = false;
  PlanPosition position; ///< line 0 if the plan has no text
  /// The plan's key, such as $.operators["h.*.attn"].n, or the option of the
  /// command line that states it.
  std::string path;
  std::string message; ///< names the operator or dimension; expected and found
  /// The number of further operators, or variables, that violate the same entry
  /// alike.
  int64_t others = 0;
  /// A note and its place, which has no meaning without a text.
  std::string note;
  mlir::Location place;
  bool isOfVariable = false; ///< and not of an operator
};

/// Emits the problems as diagnostics at their places in the plan's text. Fails
/// if one of them is an error.
mlir::LogicalResult emitPlanProblems(mlir::MLIRContext *context,
                                     llvm::StringRef source,
                                     llvm::ArrayRef<PlanProblem> problems);

//===----------------------------------------------------------------------===//
// Verifying
//===----------------------------------------------------------------------===//

/// A variable that other programs of the module's model have, but not this
/// module.
struct AbsentVariable {
  std::string name;
  int64_t rank = 0;
  /// The reason why a plan for this program must not name the variable, for the
  /// error message. Empty if the plan may name it.
  std::string reason;
};

/// The facts that a plan is checked against beside the program.
struct PlanSetting {
  int64_t devices = 0;              ///< available; 0: any number
  const Cluster *cluster = nullptr; ///< null: none is known
  /// The plan may also name those variables whose `reason` is empty.
  llvm::ArrayRef<AbsentVariable> absent;
};

/// An op with named factors, and the axes that the plan assigns to them.
struct PlannedOp {
  mlir::Operation *op;
  ShardingRule rule;
  FactorAxes axes;
  /// Whether the plan names the factor.
  llvm::SmallVector<bool> pinned;
};

/// The assignments of a plan to the ops and variables of a program. If no
/// problem is an error, all of them can be applied.
struct ResolvedPlan {
  MeshAttr mesh;
  std::vector<PlannedOp> ops;
  /// Ops whose first results are pinned, with the axes of the results' factors.
  std::vector<PlannedOp> pins;
  llvm::SmallVector<std::pair<VariableOp, DimensionAxes>> storage;
  llvm::SmallVector<std::pair<mlir::Operation *, SplitAttr>> splits;
  llvm::SmallVector<std::pair<mlir::Operation *, int64_t>> priorities, stages;
  std::vector<PlanProblem> problems;
};

/// Finds the plan's assignments to all operators and variables, and all
/// violations.
ResolvedPlan resolvePlan(mlir::ModuleOp module, const Plan &plan,
                         const PlanSetting &setting);

/// Returns all violations, errors before warnings.
std::vector<PlanProblem> verifyPlan(mlir::ModuleOp module, const Plan &plan,
                                    const PlanSetting &setting);

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Returns the device of the ranks with coordinate `at` along the axis of the
/// device kinds. If these ranks have devices of several kinds, returns the
/// smallest.
ClusterDevice getDeviceOfKind(mlir::ModuleOp sharded,
                              const rt::DeviceKinds &kinds, int64_t at,
                              const Cluster &cluster);

/// Compares the variables of a sharded program with the memory of the cluster's
/// devices: parameters, optimizer state and gradients, exactly as they are
/// stored. Returns no problem, or one. The memory of the program's other values
/// is known only after compiling.
std::vector<PlanProblem> verifyPlanMemory(mlir::ModuleOp sharded,
                                          const Plan &plan,
                                          const Cluster &cluster);

} // namespace heddle

#endif // HEDDLE_PLANVERIFIER_PLANVERIFIER_H
