//===- KernelCounts.h - Counts of compiled kernels --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_BOUNDS_KERNELCOUNTS_H
#define HEDDLE_LIB_PLANNER_BOUNDS_KERNELCOUNTS_H

#include "ProgramCounts.h"
#include <vector>

namespace heddle {

/// The seconds of each kernel of a compiled micro-batch, in the program's
/// order.
using KernelSeconds = std::vector<double>;

/// Sets the counts of compiled programs of one device. The first index is that
/// of the rows, the second that of the layers. If programs of different rows
/// have different kernels, the fewer launches count, and none of them as
/// growing.
void setComputing(ProgramCounts (&counts)[2][2],
                  const KernelSeconds (&kernels)[2][2], double launch);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BOUNDS_KERNELCOUNTS_H
