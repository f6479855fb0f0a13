//===- UsePlan.h - The command line that uses a plan ------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_USEPLAN_H
#define HEDDLE_TOOLS_HEDDLE_USEPLAN_H

#include "PlanModel.h"

namespace heddle::tools {

/// Returns the command line that compiles the model with the plan that was
/// found. It has the rows and the number of micro-batches, and the options of
/// the step. `path` is the plan's file. Empty: the plan was not written.
std::string getCompileCommand(const CompileFlags &flags,
                              const PlanSearch &search,
                              const std::string &path);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_USEPLAN_H
