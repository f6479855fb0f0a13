//===- KernelCounts.h - Counts of compiled kernels --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_BOUNDS_KERNELCOUNTS_H
#define HEDDLE_LIB_PLANNER_BOUNDS_KERNELCOUNTS_H

#include "ProgramCounts.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <map>
#include <optional>
#include <vector>

namespace heddle {

/// The seconds of each kernel of a compiled micro-batch, in the program's
/// order.
using KernelSeconds = std::vector<double>;

/// Lower bounds of the kernels of a micro-batch on one device, as a function of
/// its rows. All are in seconds.
struct KernelCounts {
  double perRow = 0, fixed = 0; ///< of all kernels, with their launches
  double launches = 0;
  double growingLaunches = 0; ///< of kernels whose time grows with the rows

  void setIn(ProgramCounts &counts, double rows) const;
};

/// Finds the counts of programs of equal depth, by their numbers of rows. The
/// first two neighbours with the same kernels say what a further row adds; no
/// number of rows should lie between them, and later programs have these
/// kernels, too. A program of fewer rows may have other kernels; it takes no
/// less time, and as many launches count as the smallest program has. Returns
/// nothing if no such function is known.
std::optional<KernelCounts>
fitKernels(const std::map<int64_t, KernelSeconds> &programs, double launch);

/// Measures programs of 1, 2, 4 and more rows, until two of them have the same
/// kernels. Then also measures one more row than that with fewer rows has.
/// Returns nothing if there are none, or if a program cannot be compiled.
std::optional<KernelCounts> measureKernelCounts(
    llvm::function_ref<llvm::Expected<KernelSeconds>(int64_t rows)> measure,
    double launch);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BOUNDS_KERNELCOUNTS_H
