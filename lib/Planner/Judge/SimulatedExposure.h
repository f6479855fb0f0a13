//===- SimulatedExposure.h - Exposed time of collectives --------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_SIMULATEDEXPOSURE_H
#define HEDDLE_LIB_PLANNER_JUDGE_SIMULATEDEXPOSURE_H

#include "heddle/Planner/Operators.h"
#include "heddle/Simulate/Simulate.h"

namespace heddle {

/// Returns, for each kind of collective and each outermost level that it
/// crosses, the fraction of its time for which computation waits. Kinds and
/// levels that do not occur in the simulation count in full.
mlir::FailureOr<Exposure> getSimulatedExposure(mlir::ModuleOp module,
                                               const Simulation &simulation,
                                               const Cluster &cluster);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_SIMULATEDEXPOSURE_H
