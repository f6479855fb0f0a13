//===- CriticalPath.h - The longest chain of calls --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SIMULATE_DATAFLOW_CRITICALPATH_H
#define HEDDLE_LIB_SIMULATE_DATAFLOW_CRITICALPATH_H

#include "dialects/Rt/Rt.h"

namespace heddle {

/// Returns the seconds of the longest chain of calls of which each reads bytes
/// that the one before has written. Streams and events do not count, nor does a
/// call that overwrites what another one reads: they follow from the schedule
/// and the places in memory. `calls` are in order of issue; `seconds` has the
/// time of each.
double getCriticalPath(llvm::ArrayRef<rt::DeviceCallOpInterface> calls,
                       llvm::ArrayRef<double> seconds);

} // namespace heddle

#endif // HEDDLE_LIB_SIMULATE_DATAFLOW_CRITICALPATH_H
