//===- Weights.h - Executions of an op in a step ----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_WEIGHTS_H
#define HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_WEIGHTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle {

/// The number of times that a step runs each function and op. @accumulate runs
/// once per micro-batch, @evaluate and @gradients never. A called function runs
/// as often as its calls, and the body of a loop of known length as often as
/// the loop says.
class StepWeights {
public:
  /// `microBatches` is 0 if the module says how many there are.
  StepWeights(mlir::ModuleOp module, int64_t microBatches)
      : module(module), symbols(module), microBatches(microBatches) {}

  double get(mlir::func::FuncOp function);
  double get(mlir::Operation *op);

private:
  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  int64_t microBatches;
  llvm::DenseMap<mlir::Operation *, double> known;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_WEIGHTS_H
