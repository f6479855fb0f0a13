//===- GpuTarget.h - Code of kernels for NVIDIA GPUs ------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_WRITEARTIFACT_GPUTARGET_H
#define HEDDLE_LIB_LOWER_WRITEARTIFACT_GPUTARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

namespace heddle {

/// Returns the PTX of the module's kernels for a chip that checkTargetGpu()
/// accepts. Before PTX is written, calls visit() with the kernels' LLVM IR
/// after its last optimization. The PTX is that of the module which visit()
/// leaves.
mlir::FailureOr<std::string>
emitPtx(mlir::ModuleOp module, llvm::StringRef chip,
        llvm::function_ref<void(llvm::Module &)> visit);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_WRITEARTIFACT_GPUTARGET_H
