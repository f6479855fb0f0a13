//===- ExplanationReport.h - Plans explained as text and JSON ---*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLANATIONREPORT_H
#define HEDDLE_TOOLS_HEDDLE_EXPLANATIONREPORT_H

#include "heddle/Planner/Explain.h"

#include "llvm/Support/JSON.h"

#include <initializer_list>

namespace heddle::tools {

/// Returns the memory of the devices that need most.
DeviceMemoryPlan getMostMemory(const PlanExplanation &explanation);

/// Prints the heading of a table: a name, columns of numbers, and a text.
void printHeading(std::initializer_list<llvm::StringRef> columns,
                  llvm::StringRef last = "");

/// Prints an explanation for people.
void printExplanation(const PlanExplanation &explanation);

/// Writes the attributes "simulated" and "estimated".
void writeExplanation(llvm::json::OStream &out,
                      const PlanExplanation &explanation);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_EXPLANATIONREPORT_H
