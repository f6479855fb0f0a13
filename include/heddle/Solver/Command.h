//===- Command.h - `heddle solve` -------------------------------*- C++ -*-===//

#ifndef HEDDLE_SOLVER_COMMAND_H
#define HEDDLE_SOLVER_COMMAND_H

namespace heddle::solver {

/// Runs `heddle solve ARGS...`; `argv[0]` is the name shown in the usage.
/// Improving solutions go to standard error, the assignment to standard
/// output. Ctrl-C (SIGINT) and SIGTERM end the search with the best assignment
/// so far; a second signal of the same kind ends the process. The timeout
/// includes reading the problem. Returns the exit code: 0 if a feasible
/// assignment was printed or checked, 1 if there is none, 2 if the arguments or
/// files are wrong or output could not be written.
int runSolveCommand(int argc, const char *const *argv);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_COMMAND_H
