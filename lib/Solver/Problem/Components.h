//===- Components.h - Independent parts of a problem ------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_PROBLEM_COMPONENTS_H
#define HEDDLE_LIB_SOLVER_PROBLEM_COMPONENTS_H

#include "heddle/Solver/Problem.h"

namespace heddle::solver {

/// A part of a problem that is independent of all other parts: it shares no
/// edge with them, and no time at which the limit could be exceeded. It also
/// stands for all parts that are equal to it except for node numbers and a
/// shift in time.
struct Component {
  Problem part; ///< One of the equal parts.
  /// By equal part, then by its node: the node of the whole problem.
  std::vector<std::vector<uint32_t>> nodes;
};

/// Splits `p`, which must be valid, into independent parts, in the order of
/// their first nodes. Their optima together are the optimum of `p`. Returns
/// nothing if `p` cannot be split.
std::vector<Component> findComponents(const Problem &p);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_PROBLEM_COMPONENTS_H
