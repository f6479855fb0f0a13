//===- OrderWithinMemory.h - Programs that fit into a device ----*- C++ -*-===//

#ifndef HEDDLE_LIB_PIPELINES_ORDERWITHINMEMORY_H
#define HEDDLE_LIB_PIPELINES_ORDERWITHINMEMORY_H

#include "PhasePipelines.h"
#include "heddle/Support/Cluster.h"

namespace heddle {

/// Orders the programs of a module of phase `kernels` and plans their memory,
/// first as if memory were ample: a limit counts tensors that share memory
/// twice, so it may cost time although the fastest order fits. If that exceeds
/// the memory of a device, orders the programs within it, too, up to three
/// times with more and more memory in reserve, and keeps the smallest result.
/// Stops early if a result fits, or if it exceeds the memory so far that a
/// reserve changes little. `run` brings the module to phase `executable`, with
/// an order within the given memory.
mlir::LogicalResult
orderWithinMemory(mlir::ModuleOp module, const Cluster &cluster,
                  llvm::function_ref<mlir::LogicalResult(ProgramMemory)> run);

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_ORDERWITHINMEMORY_H
