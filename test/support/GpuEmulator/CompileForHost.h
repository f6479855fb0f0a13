//===- CompileForHost.h - From IR of NVPTX to IR of this CPU ----*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_GPUEMULATOR_COMPILEFORHOST_H
#define HEDDLE_TEST_SUPPORT_GPUEMULATOR_COMPILEFORHOST_H

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

namespace heddle {

/// The prefix of the functions that stand for intrinsics of NVVM.
inline constexpr llvm::StringLiteral kIntrinsicPrefix = "heddle_gpu.";
/// The suffix of a function that calls a kernel with parameters from memory.
inline constexpr llvm::StringLiteral kCallSuffix = ".call";

/// Returns the module for the CPU of `machine`: one address space, calls of our
/// functions instead of intrinsics of NVVM, and a report of every access to
/// memory.
llvm::Expected<std::unique_ptr<llvm::Module>>
compileForHost(const llvm::Module &module, llvm::LLVMContext &context,
               llvm::TargetMachine &machine);

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_GPUEMULATOR_COMPILEFORHOST_H
