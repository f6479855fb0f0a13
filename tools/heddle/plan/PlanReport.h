//===- PlanReport.h - What heddle plan prints -------------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_PLANREPORT_H
#define HEDDLE_TOOLS_HEDDLE_PLANREPORT_H

#include "PlanModel.h"

namespace heddle::tools {

/// Prints the answer to a search on standard output: as text, and as one JSON
/// object. `command` is the command line that compiles the plan.
void printPlanReport(const PlanSearch &search, const std::string &command);
void writePlanReport(const PlanSearch &search, const std::string &command);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_PLANREPORT_H
