//===- VariableMemory.h - Bytes of variables on devices ---------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_RT_VARIABLEMEMORY_H
#define HEDDLE_DIALECTS_RT_VARIABLEMEMORY_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::rt {

/// Returns the bytes that the runtime allocates for a buffer. Every buffer
/// starts on a cache line.
int64_t getAllocatedBytes(int64_t bytes);
int64_t getAllocatedBytes(mlir::RankedTensorType type);

/// The coordinates that tell devices apart: those along the pipeline's axis. In
/// a module without a pipeline, all devices are alike, and the axis is null.
struct DeviceKinds {
  mlir::StringAttr axis;
  int64_t count = 1;

  static DeviceKinds get(mlir::ModuleOp module);
  /// Returns whether a set of ranks has a rank with the coordinate `device`. A
  /// null set has all ranks.
  bool isOn(RanksAttr ranks, int64_t device) const;
};

/// Bytes that the runtime allocates for the variables of one device.
struct VariableMemory {
  int64_t parameters = 0; ///< and buffers
  int64_t optimizerState = 0, gradients = 0, counters = 0;

  int64_t getTotal() const {
    return parameters + optimizerState + gradients + counters;
  }
};

/// Returns the bytes on the ranks with the coordinate `device`. Variables of a
/// module that is not sharded yet count as whole.
VariableMemory getVariableMemory(mlir::ModuleOp module,
                                 const DeviceKinds &kinds, int64_t device);

} // namespace heddle::rt

#endif // HEDDLE_DIALECTS_RT_VARIABLEMEMORY_H
