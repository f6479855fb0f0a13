//===- ProblemBuilder.h - The solver's problem of a program -----*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_PROBLEM_PROBLEMBUILDER_H
#define HEDDLE_LIB_PLANNER_OPERATORS_PROBLEM_PROBLEMBUILDER_H

#include "../Costs/Costs.h"
#include "Strategies.h"
#include "heddle/Solver/Problem.h"

namespace heddle {

/// The costs of a problem are picoseconds, its usages bytes.
inline constexpr double kPicosecondsPerSecond = 1e12;

/// The nodes of a problem, and the meaning of their strategies. The first nodes
/// are those of `groups`, in order. Every other node is a layout.
struct OperatorProblem {
  solver::Problem problem;
  /// By group: its strategies.
  std::vector<std::vector<Strategy>> strategies;
  struct LayoutNode {
    Place place; ///< a result of an op class, a variable or a cell
    std::vector<ShardingAttr> layouts;
  };
  std::vector<LayoutNode> layouts;
  MeshRef mesh;

  unsigned getNode(unsigned group) const { return group; }
  unsigned getLayoutNode(unsigned layout) const {
    return strategies.size() + layout;
  }
};

/// A plan's mesh and its place on a cluster.
struct PlannedMesh {
  MeshRef mesh;
  MeshTopology topology;
};

/// Emits an error if the mesh does not fit on the cluster, or has too many axes
/// for a problem.
mlir::FailureOr<PlannedMesh> makePlannedMesh(mlir::ModuleOp module,
                                             const Plan &plan,
                                             const Cluster &cluster);

/// Builds the problem. Emits an error if a group cannot have the axes of the
/// base plan, or if Costs does.
mlir::FailureOr<OperatorProblem> buildProblem(const Program &program,
                                              Costs &costs,
                                              const OperatorsOptions &options,
                                              mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_PROBLEM_PROBLEMBUILDER_H
