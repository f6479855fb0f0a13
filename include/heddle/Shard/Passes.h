//===- Passes.h - Passes of the partitioner ---------------------*- C++ -*-===//

#ifndef HEDDLE_SHARD_PASSES_H
#define HEDDLE_SHARD_PASSES_H

#include "heddle/Cost/ClusterChoice.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace heddle {

#define GEN_PASS_DECL
#include "heddle/Shard/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Shard/Passes.h.inc"

} // namespace heddle

#endif // HEDDLE_SHARD_PASSES_H
