//===- Passes.h - Passes from a forward program to a step -------*- C++ -*-===//

#ifndef HEDDLE_AUTODIFF_PASSES_H
#define HEDDLE_AUTODIFF_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

enum class OptimizerKind { AdamW, Adam, SGD };
enum class ScheduleKind { Constant, Cosine };
enum class ComputeType { F32, BF16 };

#define GEN_PASS_DECL
#include "heddle/Autodiff/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Autodiff/Passes.h.inc"

} // namespace heddle

#endif // HEDDLE_AUTODIFF_PASSES_H
