//===- ExplainPlan.h - Plans explained and compared -------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINPLAN_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINPLAN_H

#include "model/Model.h"

namespace heddle::tools {

/// Explains the plan of a file for the model and cluster of the flags.
/// Properties of the step that the flags do not state (rows, micro-batches,
/// positions, bf16, optimizer) come from the plan's prediction, if it has one.
/// If `page` is not empty, also writes that page for a browser. Returns the
/// exit code.
int explainPlanFile(CompileFlags flags, const std::string &plan, bool json,
                    const std::string &page);

/// Compares two plans operator by operator, for steps of equal rows. Returns
/// the exit code.
int diffPlanFiles(const CompileFlags &flags, const std::string &before,
                  const std::string &after, bool json);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINPLAN_H
