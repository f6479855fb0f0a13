//===- GpuTarget.h - Code generators for NVIDIA GPUs ------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_WRITEARTIFACT_GPUTARGET_H
#define HEDDLE_LIB_LOWER_WRITEARTIFACT_GPUTARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace heddle {

/// Returns the code generator for a chip that checkTargetGpu() accepts.
mlir::FailureOr<std::unique_ptr<llvm::TargetMachine>>
createGpuMachine(mlir::Location loc, llvm::StringRef chip);

/// Returns the LLVM IR of the module's kernels for GPUs after its last
/// optimization.
mlir::FailureOr<std::unique_ptr<llvm::Module>>
optimizeForGpu(mlir::ModuleOp module, llvm::TargetMachine &machine,
               llvm::LLVMContext &context);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_WRITEARTIFACT_GPUTARGET_H
