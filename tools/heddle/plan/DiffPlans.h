//===- DiffPlans.h - Two plans compared by operator -------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_DIFFPLANS_H
#define HEDDLE_TOOLS_HEDDLE_DIFFPLANS_H

#include "heddle/Planner/Explain.h"

#include "llvm/Support/JSON.h"

namespace heddle::tools {

/// Prints the totals of two plans, and the operators in which they differ, the
/// largest difference in time first.
void printDifferences(const PlanExplanation &before,
                      const PlanExplanation &after);

/// Writes the attributes "first", "second" and "difference", which has all
/// operators.
void writeDifferences(llvm::json::OStream &out, const PlanExplanation &before,
                      const PlanExplanation &after);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_DIFFPLANS_H
