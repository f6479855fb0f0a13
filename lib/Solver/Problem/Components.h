//===- Components.h - Parts of a problem that do not meet -------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_PROBLEM_COMPONENTS_H
#define HEDDLE_LIB_SOLVER_PROBLEM_COMPONENTS_H

#include "heddle/Solver/Problem.h"

namespace heddle::solver {

/// A part of a problem that shares no edge, and no time at which the limit
/// could be exceeded, with the rest, and all the parts that equal it but for
/// the numbers of their nodes and a shift in time.
struct Component {
  Problem part; ///< One of them.
  /// By part: the node of the whole problem for each of its nodes.
  std::vector<std::vector<uint32_t>> nodes;
};

/// Splits `p`, which must be valid, in the order of the parts' first nodes:
/// their optima together are the optimum of `p`. Empty if `p` is in one piece.
std::vector<Component> findComponents(const Problem &p);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_PROBLEM_COMPONENTS_H
