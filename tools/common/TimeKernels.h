//===- TimeKernels.h - Times of single kernels of a GPU ---------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_COMMON_TIMEKERNELS_H
#define HEDDLE_TOOLS_COMMON_TIMEKERNELS_H

#include "CommandLine.h"

namespace heddle::tools {

/// Adds the command `time-kernels`. Its run sets `result`, the exit code.
void addTimeKernelsCommand(CLI::App &app, int &result);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_TIMEKERNELS_H
