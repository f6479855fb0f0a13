//===- Work.h - FLOPs and bytes of programs ---------------------*- C++ -*-===//

#ifndef HEDDLE_COST_WORK_H
#define HEDDLE_COST_WORK_H

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/IR/DialectRegistry.h"

namespace heddle {

/// Attaches WorkOpInterface to upstream arith, math and tensor ops, and to all
/// structured ops of linalg (products, convolutions, pooling, reductions): what
/// their body takes at a point, times the points of their loops. FLOPs: one an
/// element and arithmetic op, on integers as on floats, ten for exp, tanh and
/// the like; casts, selections, logic and moves are none. Bytes: operands are
/// read and results written once; reshapes and constants move nothing.
void registerWorkModels(mlir::DialectRegistry &registry);

/// The sum over all ops of a region, those of ops without the interface left
/// out: what the program costs if no two ops are fused.
Work getTotalWork(mlir::Region &region);

} // namespace heddle

#endif // HEDDLE_COST_WORK_H
