//===- Passes.h - The pass that cuts programs into stages -------*- C++ -*-===//

#ifndef HEDDLE_STAGES_PASSES_H
#define HEDDLE_STAGES_PASSES_H

#include "dialects/Heddle/Heddle.h"
#include "heddle/Cost/ClusterChoice.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

#define GEN_PASS_DECL
#include "heddle/Stages/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Stages/Passes.h.inc"

} // namespace heddle

#endif // HEDDLE_STAGES_PASSES_H
