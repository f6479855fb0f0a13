//===- ProblemIO.h - The contest's JSON form --------------------*- C++ -*-===//
//
//   {"problem": {"name": "...",
//     "nodes": {"intervals": [[begin, end], ...], "costs": [[...], ...],
//               "usages": [[...], ...]},
//     "edges": {"nodes": [[u, v], ...], "costs": [[...], ...]},
//     "usage_limit": 50}}
//
// "name" and "usage_limit" may be absent. An assignment is an array of
// strategy numbers, one per node.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SOLVER_PROBLEMIO_H
#define HEDDLE_SOLVER_PROBLEMIO_H

#include "heddle/Solver/Problem.h"

#include <string>
#include <string_view>

namespace heddle::solver {

/// Parses and validates a problem.
llvm::Expected<Problem> parseProblem(std::string_view json);

/// Parses an assignment; its length and values are `evaluate`'s to check.
llvm::Expected<Assignment> parseAssignment(std::string_view json);

/// The problem in the contest's form; `parseProblem` reads it back.
std::string printProblem(const Problem &p);

/// `[s0, s1, ...]` on one line, without a line break.
std::string printAssignment(const Assignment &a);

/// The content of a file, decompressed if it is gzip whatever its name.
llvm::Expected<std::string> readFile(const std::string &path);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_PROBLEMIO_H
