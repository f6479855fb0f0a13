//===- Passes.h - Passes from kernels to native code ------------*- C++ -*-===//

#ifndef HEDDLE_LOWER_PASSES_H
#define HEDDLE_LOWER_PASSES_H

#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

#define GEN_PASS_DECL
#include "heddle/Lower/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Lower/Passes.h.inc"

} // namespace heddle

#endif // HEDDLE_LOWER_PASSES_H
