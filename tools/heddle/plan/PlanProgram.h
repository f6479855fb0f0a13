//===- PlanProgram.h - The program that is planned --------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_PLANPROGRAM_H
#define HEDDLE_TOOLS_HEDDLE_PLANPROGRAM_H

#include "heddle/Planner/Planner.h"
#include "model/Model.h"

namespace heddle::tools {

/// Fills `program` from the model of the flags: a config, which makes programs
/// of any size, or an .mlir file, which has fixed sizes. --batch states the
/// rows of a step. Without it, each micro-batch has one row for each device, or
/// the rows of the file. Prints an error and returns false if there is no such
/// program.
bool chooseProgram(Compiler &compiler, const CompileFlags &flags,
                   int64_t devices, int64_t microBatches,
                   ProgramToPlan &program);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_PLANPROGRAM_H
