//===- RandomProblem.h - Small instances of every shape ---------*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_SOLVER_RANDOMPROBLEM_H
#define HEDDLE_TEST_UNIT_SOLVER_RANDOMPROBLEM_H

#include "heddle/Solver/Problem.h"

#include <random>

namespace heddle::solver::test {

/// Up to 12 nodes on a chain, tree, cycle, star, grid, random or complete
/// graph, in one or more components; memory tight, loose, impossible or
/// unlimited; several edges per pair, edges of one and three nodes and loops;
/// infinite costs; costs small or near the top of 64 bits. At most
/// `maxAssignments` assignments.
Problem randomProblem(std::mt19937_64 &r, double maxAssignments);

/// The optimum, by trying everything; none if no assignment is feasible.
std::optional<Cost> bruteForce(const Problem &p);

/// How many times slower than usual this build may be: sanitizers are.
constexpr double slowdown() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 20;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return 20;
#else
  return 1;
#endif
#else
  return 1;
#endif
}

} // namespace heddle::solver::test

#endif // HEDDLE_TEST_UNIT_SOLVER_RANDOMPROBLEM_H
