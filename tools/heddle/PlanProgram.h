//===- PlanProgram.h - The program that is planned --------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_PLANPROGRAM_H
#define HEDDLE_TOOLS_HEDDLE_PLANPROGRAM_H

#include "Model.h"
#include "heddle/Planner/Planner.h"

namespace heddle::tools {

/// Fills `program` by the model of the flags: a config, which makes programs of
/// any size, or an .mlir file, which has one size. Unless --batch states the
/// rows of a step, there is one for each of the devices, or those of the file,
/// in each micro-batch. Prints an error and returns false if there is no such
/// program.
bool chooseProgram(Compiler &compiler, const CompileFlags &flags,
                   int64_t devices, int64_t microBatches,
                   ProgramToPlan &program);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_PLANPROGRAM_H
