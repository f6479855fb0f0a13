//===- SimulatedExposure.h - Which collectives a step waits for -*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_SIMULATEDEXPOSURE_H
#define HEDDLE_LIB_PLANNER_JUDGE_SIMULATEDEXPOSURE_H

#include "heddle/Planner/Operators.h"
#include "heddle/Simulate/Simulate.h"

namespace heddle {

/// Returns the part of the time of collectives for which computation waits, by
/// their kind and the outermost level of the cluster that they cross. Kinds and
/// levels that the simulation has not count in full.
mlir::FailureOr<Exposure> getSimulatedExposure(mlir::ModuleOp module,
                                               const Simulation &simulation,
                                               const Cluster &cluster);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_SIMULATEDEXPOSURE_H
