//===- FindBlockPlan.h - The answer to a request with blocks ----*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_BLOCKS_FINDBLOCKPLAN_H
#define HEDDLE_LIB_PLANNER_BLOCKS_FINDBLOCKPLAN_H

#include "heddle/Planner/Planner.h"

namespace heddle {

/// Answers a request that has a profile of blocks. The mesh is the profile's,
/// and what the profile says is the time and memory: nothing is compiled. The
/// request is checked, and the plan has no prediction yet.
llvm::Expected<PlanReport> findBlockPlan(const PlanRequest &request);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BLOCKS_FINDBLOCKPLAN_H
