//===- Lines.h - The lines of an explanation --------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_EXPLAIN_LINES_H
#define HEDDLE_LIB_PLANNER_EXPLAIN_LINES_H

#include "heddle/Planner/Explain.h"

namespace heddle {

/// Gives a choice the names of its lines instead of its glob, if only some of
/// the equal layers have it.
void nameLine(OperatorChoice &choice, const LineNames &lines);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_EXPLAIN_LINES_H
