//===- ExplainPins.h - Why pins cannot hold ---------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_EXPLAIN_EXPLAINPINS_H
#define HEDDLE_LIB_PLANNER_EXPLAIN_EXPLAINPINS_H

#include "../Bounds/ProgramCounts.h"
#include "heddle/Planner/Planner.h"

namespace heddle {

/// Returns which pins cannot hold on the devices and for the program, why, and
/// the nearest values that can. Empty if every pin can hold.
std::string explainPins(const PlanRequest &request, const SplitLimits &limits);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_EXPLAIN_EXPLAINPINS_H
