//===- LiveBytes.h - Bytes of a device that programs use --------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_LIVEBYTES_H
#define HEDDLE_LIB_SCHEDULE_LIVEBYTES_H

#include "dialects/Heddle/HeddleDialect.h"
#include "heddle/Support/Cluster.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Returns the bytes of a device that the variables of a module, and the
/// arguments and results of its programs, leave free. If `ranks` is set, only
/// the programs of these ranks count, and only those arguments and results that
/// are no slots of a pipeline.
int64_t getFreeBytes(mlir::ModuleOp module, const ClusterDevice &device,
                     RanksAttr ranks = RanksAttr());

/// Returns whether the op only shows its operand in another shape.
bool isView(mlir::Operation *op);

/// Returns the most bytes of tensors that are live at one op of the block, in
/// the order of its text. A view lies in its operand. Variables and constants
/// do not count. This is an upper bound of the planned memory, because no op is
/// fused or works in place yet.
int64_t getPeakBytes(mlir::Block &block);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_LIVEBYTES_H
