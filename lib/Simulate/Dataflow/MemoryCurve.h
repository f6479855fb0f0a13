//===- MemoryCurve.h - Which bytes hold values at which time ----*- C++ -*-===//

#ifndef HEDDLE_LIB_SIMULATE_DATAFLOW_MEMORYCURVE_H
#define HEDDLE_LIB_SIMULATE_DATAFLOW_MEMORYCURVE_H

#include "heddle/Simulate/Simulate.h"

namespace heddle {

/// Fills `curve`, `peakTime`, `peak` and `aliveAtPeak` of each list's memory,
/// which has its plan, and chooses the largest one. `simulation` has its calls,
/// in order of issue for each list.
void fillMemoryCurves(Simulation &simulation);

} // namespace heddle

#endif // HEDDLE_LIB_SIMULATE_DATAFLOW_MEMORYCURVE_H
