//===- Strategies.h - The ways to split a group of ops ----------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_PROBLEM_STRATEGIES_H
#define HEDDLE_LIB_PLANNER_OPERATORS_PROBLEM_STRATEGIES_H

#include "../Program/Program.h"
#include "heddle/Plan/Plan.h"

namespace heddle {

/// One way to split the ops of a group.
struct Strategy {
  llvm::SmallVector<Axes> axes; ///< by key of the group
  /// The axes over which the op takes partial sums and passes them on, and the
  /// linear group of operands that are partial sums.
  Axes passed;
  unsigned linear = 0;
};

/// Returns all strategies of a group. Every axis splits one key, or two keys
/// that meet, or passes as a partial sum, or is not used. Unless
/// `allowsEmptyParts`, no factor is split into more parts than its size. Every
/// split can be written as a sharding.
/// Factors that the base plan names have the plan's axes.
std::vector<Strategy> enumerateStrategies(const Program &program,
                                          unsigned group, MeshRef mesh,
                                          const Plan &base,
                                          bool allowsEmptyParts = false);

FactorAxes getFactorAxes(const OpClass &made, const Strategy &strategy);
/// Returns the sharding that an operand must have, or that a result has.
ShardingAttr getNeed(const OpClass &made, const Strategy &strategy,
                     unsigned operand, MeshRef mesh);
ShardingAttr getMade(const OpClass &made, const Strategy &strategy,
                     unsigned result, MeshRef mesh);

/// Returns all layouts of a tensor in which every axis splits at most one
/// dimension. With `orders`, the axes of one dimension come in any order if the
/// mesh has few axes. Otherwise they have the order of the mesh. With
/// `partial`, the tensor may also be a partial sum. Unless `allowsEmptyParts`,
/// no dimension is split into more parts than its size.
std::vector<ShardingAttr> enumerateLayouts(mlir::RankedTensorType type,
                                           MeshRef mesh, bool orders,
                                           bool partial,
                                           bool allowsEmptyParts = false);

/// The mesh axes that a plan may give to factors: those with several devices,
/// except the pipeline's.
Axes getPlannedAxes(MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_PROBLEM_STRATEGIES_H
