//===- CriticalPath.h - The longest chain of calls --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SIMULATE_DATAFLOW_CRITICALPATH_H
#define HEDDLE_LIB_SIMULATE_DATAFLOW_CRITICALPATH_H

#include "heddle/Simulate/Simulate.h"

namespace heddle {

/// A call of one of several lists.
struct PathCall {
  rt::DeviceCallOpInterface op;
  double seconds = 0;
  unsigned list = 0;
  const ProgramCall *entry = nullptr; ///< of the list
  /// The index of the send whose data a receive takes; -1 for other calls.
  int64_t send = -1;
};

/// Returns the seconds of the longest chain of calls in which each call reads
/// bytes that the call before it has written. Streams and events do not count,
/// nor does a call that overwrites what another one reads: they follow from the
/// schedule and the places in memory. A call stands behind those that write
/// what it reads, in `order`, which has indices of `calls`.
double getCriticalPath(llvm::ArrayRef<PathCall> calls,
                       llvm::ArrayRef<size_t> order);

} // namespace heddle

#endif // HEDDLE_LIB_SIMULATE_DATAFLOW_CRITICALPATH_H
