//===- LocalWork.h - The work of one device in an op ------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_COSTS_LOCALWORK_H
#define HEDDLE_LIB_PLANNER_OPERATORS_COSTS_LOCALWORK_H

#include "../Program/Program.h"
#include "heddle/Support/Cluster.h"

namespace heddle {

/// Returns the work of one device in an op of the class whose factors are split
/// over these axes. Bytes that stay inside of a kernel do not count. The module
/// is not changed.
Work getLocalWork(const OpClass &made, const FactorAxes &axes, MeshRef mesh);

/// Subtracts from the work of `local`, a local op of the class, the bytes that
/// stay inside of a kernel, because WorkOpInterface counts every tensor.
void leaveOutInside(const OpClass &made, mlir::Operation *local, Work &work);

/// Returns the operations per second of a device in the op. Emits an error if
/// the cluster states no rate.
mlir::FailureOr<double> getPeakOf(mlir::Operation *op, const Cluster &cluster);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_COSTS_LOCALWORK_H
