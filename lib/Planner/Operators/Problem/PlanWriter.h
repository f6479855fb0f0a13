//===- PlanWriter.h - From a solution to the entries of a plan --*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_PROBLEM_PLANWRITER_H
#define HEDDLE_LIB_PLANNER_OPERATORS_PROBLEM_PLANWRITER_H

#include "ProblemBuilder.h"

namespace heddle {

/// A solution of the problem of a program.
struct OperatorSolution {
  const Program &program;
  const OperatorProblem &problem;
  const solver::Assignment &assignment;

  const Strategy &getStrategy(unsigned group) const {
    return problem.strategies[group][assignment[problem.getNode(group)]];
  }
  ShardingAttr getLayout(unsigned layout) const {
    return problem.layouts[layout]
        .layouts[assignment[problem.getLayoutNode(layout)]];
  }
};

/// Returns the base plan with entries for the decisions of the solution: the
/// factors of operators, and the axes added to the storage of variables. Equal
/// layers share an entry, whose glob matches nothing else.
Plan writeSolution(const OperatorSolution &solution, const Plan &base);

/// Adds the pins that the plan needs, and returns whether there are any. An
/// operator's result gets a pin if the solution reshards the result for ops
/// without a name. Without the pin, propagation would give these ops the
/// operator's own layout.
bool writePins(const OperatorSolution &solution, const Plan &base, Plan &plan);

/// Returns the axes of factors or dimensions as a plan states them:
/// `{"b": ["dp"], "f": ["tp"]}`. Leaves out those without a key or axes.
std::string formatStrategy(llvm::ArrayRef<std::string> keys,
                           llvm::ArrayRef<Axes> axes);

/// Returns the cost of each decision that a plan can state, and the cost of the
/// next best strategy in its place. All other nodes keep their strategies.
std::vector<OperatorChoice> explainSolution(const OperatorSolution &solution);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_PROBLEM_PLANWRITER_H
