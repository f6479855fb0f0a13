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

/// Parses an assignment. `evaluate` checks its length and values.
llvm::Expected<Assignment> parseAssignment(std::string_view json);

/// Prints a problem in the contest's form, which `parseProblem` reads back.
std::string printProblem(const Problem &p);

/// Prints `[s0, s1, ...]` on one line, without a line break.
std::string printAssignment(const Assignment &a);

/// Returns the content of a file. Decompresses gzip, whatever the file's name.
llvm::Expected<std::string> readFile(const std::string &path);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_PROBLEMIO_H
