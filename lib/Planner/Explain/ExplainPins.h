//===- ExplainPins.h - Explains impossible pins -----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_EXPLAIN_EXPLAINPINS_H
#define HEDDLE_LIB_PLANNER_EXPLAIN_EXPLAINPINS_H

#include "../Candidates/SplitLimits.h"
#include "heddle/Planner/Planner.h"

namespace heddle {

/// Returns the pins that are not possible on the devices or for the program,
/// with the reasons and the nearest possible values. Empty if every pin is
/// possible.
std::string explainPins(const PlanRequest &request, const SplitLimits &limits);

/// Returns why no mesh of the devices divides the program, for a request
/// whose pins are each possible, and the nearest numbers of devices and rows
/// that have a mesh.
std::string explainDevices(const PlanRequest &request,
                           const SplitLimits &limits);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_EXPLAIN_EXPLAINPINS_H
