//===- RandomProblem.h - Small instances of every shape ---------*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_SOLVER_RANDOMPROBLEM_H
#define HEDDLE_TEST_UNIT_SOLVER_RANDOMPROBLEM_H

#include "heddle/Solver/Problem.h"

#include <random>

namespace heddle::solver::test {

/// Returns a problem of up to 12 nodes and at most `maxAssignments`
/// assignments. The graph is a chain, tree, cycle, star, grid, random or
/// complete graph, in one or more components. It may have several edges per
/// pair, edges of one and three nodes, and loops. Memory is tight, loose,
/// impossible or unlimited. Costs are small, infinite, or near the top of 64
/// bits.
Problem randomProblem(std::mt19937_64 &r, double maxAssignments);

/// Returns the least cost of all assignments; none if none is feasible.
std::optional<Cost> bruteForce(const Problem &p);

} // namespace heddle::solver::test

#endif // HEDDLE_TEST_UNIT_SOLVER_RANDOMPROBLEM_H
