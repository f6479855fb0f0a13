//===- Interpretation.h - One device's values -------------------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_INTERPRETER_INTERPRETATION_H
#define HEDDLE_TEST_SUPPORT_INTERPRETER_INTERPRETATION_H

#include "Interpreter.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle {

/// One device's values. Evaluates ops without control flow on them.
class Interpretation {
public:
  Interpretation(Variables &variables, const InterpreterOptions &options)
      : variables(variables), options(options) {}

  /// Sets the values of the arguments of the function's only block.
  mlir::LogicalResult begin(mlir::func::FuncOp function,
                            llvm::ArrayRef<Tensor> arguments);
  mlir::LogicalResult evaluate(mlir::Operation &op);

  Tensor &get(mlir::Value value) { return values[value]; }
  /// Returns the values of the operands of the block's terminator.
  std::vector<Tensor> getResults(mlir::Block &block);

private:
  mlir::LogicalResult evaluateStructured(mlir::linalg::LinalgOp op);
  mlir::LogicalResult evaluateGenerate(mlir::tensor::GenerateOp op);
  mlir::LogicalResult evaluateIf(mlir::scf::IfOp op);

  Variables &variables;
  const InterpreterOptions &options;
  llvm::DenseMap<mlir::Value, Tensor> values;
};

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_INTERPRETER_INTERPRETATION_H
