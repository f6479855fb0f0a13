//===- SplitOptions.h - Operators that could run in slices ------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_SPLITOPTIONS_H
#define HEDDLE_LIB_PLANNER_JUDGE_SPLITOPTIONS_H

#include "heddle/Planner/Planner.h"
#include "heddle/Simulate/Simulate.h"
#include <set>

namespace heddle {

/// A parameter, with its equals in other layers, and an operator that can run
/// over it in slices.
struct SplitOption {
  std::string glob;   ///< of the operator and its equals
  std::string factor; ///< the dimension of the parameter that would be cut
  int64_t size = 0;   ///< of the factor
  int64_t bytes = 0;  ///< of one whole parameter
  /// The globs of all operators that read the parameter.
  std::set<std::string> readers = {};
};

/// Returns an option for each parameter of a module after autodiff that the
/// plan does not cut yet, in the order of the program. The plan's verifier
/// accepts each of them.
std::vector<SplitOption> findSplitOptions(mlir::ModuleOp module,
                                          const Plan &plan);

/// Returns what is alive at the peak of the memory, by the operators that made
/// it, the largest first.
std::vector<PeakShare> getPeakShares(const Simulation &simulation);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_SPLITOPTIONS_H
