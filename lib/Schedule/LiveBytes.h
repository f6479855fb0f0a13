//===- LiveBytes.h - Bytes of a device that programs use --------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_LIVEBYTES_H
#define HEDDLE_LIB_SCHEDULE_LIVEBYTES_H

#include "dialects/Heddle/HeddleDialect.h"
#include "heddle/Stages/StageSchedule.h"
#include "heddle/Support/Cluster.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Returns the bytes of the variables of a module, and of the arguments and
/// results of its programs, on a device. If `ranks` is set, only the programs
/// of these ranks count, and only those arguments and results that are no slots
/// of a pipeline.
int64_t getFixedBytes(mlir::ModuleOp module, RanksAttr ranks = RanksAttr());

/// Returns the memory of the smallest device that `ranks` have. Null: of the
/// cluster's smallest device.
int64_t getDeviceBytes(mlir::ModuleOp module, const Cluster &cluster,
                       RanksAttr ranks = RanksAttr());

/// Returns the bytes of such a device that getFixedBytes() leaves free, at
/// least 0.
int64_t getFreeBytes(mlir::ModuleOp module, const Cluster &cluster,
                     RanksAttr ranks = RanksAttr());

/// Returns the schedule of a module's pipeline, whose mesh is given. Emits an
/// error if there is none.
mlir::FailureOr<StageSchedule>
getStageSchedule(mlir::ModuleOp module, PipelineAttr pipeline, MeshAttr mesh);

/// Returns the bytes of the slots of a pipeline on a device of `ranks`: of
/// values that pass between programs, for all micro-batches in flight. A slot
/// is used again for values of its size, as in the tables that are written
/// later. (These may follow another schedule of the stages, by their times.)
int64_t getSlotBytes(mlir::ModuleOp module, const StageSchedule &schedule,
                     RanksAttr ranks);

/// Returns whether the op only shows its operand in another shape.
bool isView(mlir::Operation *op);

/// Returns the most bytes of tensors that are live at one op of the block, in
/// the order of its text. But what is only scattered, such as the gradient of a
/// weight that is stored in parts, is scattered at once. A view lies in its
/// operand. Variables and constants do not count. Planned memory is mostly
/// less, because no op is fused or works in place yet.
int64_t getPeakBytes(mlir::Block &block);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_LIVEBYTES_H
