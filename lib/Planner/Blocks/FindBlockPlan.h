//===- FindBlockPlan.h - The answer to a request with blocks ----*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_BLOCKS_FINDBLOCKPLAN_H
#define HEDDLE_LIB_PLANNER_BLOCKS_FINDBLOCKPLAN_H

#include "heddle/Planner/Planner.h"

namespace heddle {

/// Answers a request that has a profile of blocks. The mesh, the time and the
/// memory are those of the profile, so nothing is compiled. The request has
/// been checked. The returned plan has no prediction yet.
llvm::Expected<PlanReport> findBlockPlan(const PlanRequest &request);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BLOCKS_FINDBLOCKPLAN_H
