//===- Explain.h - What a plan chooses, and what that takes -----*- C++ -*-===//
//
// Explains a plan of a training step on a cluster, operator by operator. Two
// sources are kept apart:
//
//  - Uses are simulated: the program is compiled with the plan, and each call's
//    time and bytes go to the operator that it serves.
//  - Choices are estimated: the costs of the planner's problem of operators,
//    for the plan's strategy and for the next best one.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANNER_EXPLAIN_H
#define HEDDLE_PLANNER_EXPLAIN_H

#include "heddle/Lower/Artifact.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Planner/Operators.h"
#include <map>
#include <string>
#include <vector>

namespace heddle {

/// What a step spends on the operators of one name, simulated. A call that
/// serves several operators counts for the first. In a pipeline, it is the sum
/// over the devices of all stages.
struct OperatorUse {
  std::string name;
  double computing = 0;
  double communicating = 0;
  double exposed = 0; ///< of these, computation waits
  int64_t bytesSent = 0;
  /// The resource that takes most of the operator's time: "compute", "memory
  /// bandwidth", "launches", or "links of" the level of the cluster whose links
  /// computation waits for.
  std::string binds;
  /// Seconds by the resource that may limit the step.
  std::map<std::string, double> parts;

  double getSeconds() const { return computing + exposed; }
};

struct DeviceUse {
  std::string ranks; ///< "all ranks", or the condition on their coordinates
  DeviceMemoryPlan memory;
  int64_t capacity = 0; ///< bytes of these ranks' smallest device
};

/// An operator that runs in slices, or the operators of a line.
struct SlicedOperator {
  std::string name;
  std::string factor;
  int64_t slices = 1;
  int64_t sharded = 1; ///< slices that are stored as "storage" says

  /// Returns text such as "8 slices of h".
  std::string describe() const;
};

struct PlanExplanation {
  std::string cluster;
  int64_t devices = 1;
  int64_t capacity = 0; ///< bytes of the cluster's smallest device
  /// The kinds of device among ranks that run the same program. The times are
  /// those of the weakest kind.
  std::vector<std::string> mixed;
  // Simulated.
  double seconds = 0, exposed = 0;
  double bound = 0;      ///< no order of the program takes less
  std::string boundName; ///< "compute", "critical path" or a level
  std::vector<DeviceUse> memory;
  std::vector<OperatorUse> uses;        ///< of lines, the longest first
  std::vector<OperatorUse> usesOfNames; ///< of operators, without `binds`
  // As the plan says.
  std::vector<SlicedOperator> sliced; ///< of lines, in the program's order
  std::vector<SlicedOperator> slicedOfNames; ///< of operators
  // Estimated.
  std::vector<OperatorChoice> choices;
  std::string whyNoCosts; ///< if the choices have no costs and no runner-ups

  /// Returns the choice of an operator or a line, null if it is unknown.
  const OperatorChoice *findChoice(llvm::StringRef name) const;
};

/// The line that has the figures of an operator or variable, by its name. Equal
/// layers are one line: "h.*.mlp.c_fc". If layers differ in their choices or
/// slices, the line states its layers: "h.0.mlp.c_fc" and "h.{1-3}.mlp.c_fc".
using LineNames = std::map<std::string, std::string>;

/// Names lines such that the operators of a line have the same choice and run
/// in the same slices in each of the plans.
LineNames nameLines(llvm::ArrayRef<const PlanExplanation *> plans);

/// Adds up the uses of each line, the longest first.
std::vector<OperatorUse> groupUses(const PlanExplanation &explanation,
                                   const LineNames &lines);

/// Returns the operators in slices of each line, in the program's order.
std::vector<SlicedOperator> groupSliced(const PlanExplanation &explanation,
                                        const LineNames &lines);

/// Explains the plan of the options for an imported model or program, which is
/// not changed. Errors as diagnostics.
mlir::FailureOr<PlanExplanation> explainPlan(mlir::ModuleOp module,
                                             const CompileOptions &options,
                                             const Cluster &cluster);

} // namespace heddle

#endif // HEDDLE_PLANNER_EXPLAIN_H
