//===- PlanModel.h - The planner on the command line ------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_PLANMODEL_H
#define HEDDLE_TOOLS_HEDDLE_PLANMODEL_H

#include "Model.h"
#include "heddle/Planner/Planner.h"

namespace heddle::tools {

/// What commands that plan ask beside the model.
struct PlannerFlags {
  std::string memory; ///< with a unit; empty: that of the cluster's device
  std::vector<std::string> pins;
  int64_t mostCompiled = PlanRequest().mostCompiled;
  bool quiet = false;
};

void addPlannerFlags(CLI::App &app, PlannerFlags &flags);

struct PlanSearch {
  PlanRequest request;
  PlanReport report;
};

/// Searches for the best plan of a model on the cluster of the flags. Shows
/// progress on standard error. Ctrl-C ends the search with the best plan so
/// far. Prints an error and returns nullopt if there can be no search.
std::optional<PlanSearch> planModel(CompileFlags &flags,
                                    const PlannerFlags &planner);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_PLANMODEL_H
