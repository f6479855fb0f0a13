//===- PlanFront.h - heddle plan --front ------------------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_PLANFRONT_H
#define HEDDLE_TOOLS_HEDDLE_PLANFRONT_H

#include "PlanModel.h"

namespace heddle::tools {

struct FrontFlags {
  bool isAsked = false;
  std::string page; ///< to write; empty: none
};

/// Finds the front of choices of a model, prints it, and writes its plans as
/// 1.json, 2.json, ... into the folder `output`, if that is not empty. Returns
/// the exit code.
int runPlanFront(CompileFlags &flags, const PlannerFlags &planner,
                 const FrontFlags &front, const std::string &output,
                 bool asJson);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_PLANFRONT_H
