//===- Work.h - FLOPs and bytes of programs ---------------------*- C++ -*-===//

#ifndef HEDDLE_COST_WORK_H
#define HEDDLE_COST_WORK_H

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/IR/DialectRegistry.h"

namespace heddle {

/// Attaches WorkOpInterface to upstream arith, math and tensor ops, and to all
/// structured ops of linalg (products, convolutions, pooling, reductions). A
/// structured op has the FLOPs of its body times the number of iterations. An
/// arithmetic op counts one FLOP an element, on integers as on floats. exp,
/// tanh and the like count ten. Casts, selections, logic and moves count none.
/// Operands are read and results written once. Reshapes and constants move no
/// bytes.
void registerWorkModels(mlir::DialectRegistry &registry);

/// Returns the sum over all ops of a region that have the interface: the work
/// of the program if no two ops are fused.
Work getTotalWork(mlir::Region &region);

} // namespace heddle

#endif // HEDDLE_COST_WORK_H
