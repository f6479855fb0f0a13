//===- Execution.h - One or many devices through a program ------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_INTERPRETER_EXECUTION_H
#define HEDDLE_TEST_SUPPORT_INTERPRETER_EXECUTION_H

#include "Interpretation.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace heddle {

/// All devices walk through the program together, op by op: each evaluates an
/// op on its own values, a collective sees those of all, and where control
/// branches they have to agree.
class Execution {
public:
  /// `mesh` may be null for one device without collectives.
  Execution(MeshAttr mesh, llvm::MutableArrayRef<Variables> variables,
            const InterpreterOptions &options);

  /// The outer index of arguments and results is the device.
  mlir::FailureOr<std::vector<std::vector<Tensor>>>
  run(mlir::func::FuncOp function,
      llvm::ArrayRef<std::vector<Tensor>> arguments);

private:
  /// All ops but the terminator.
  mlir::LogicalResult run(mlir::Block &block);
  mlir::LogicalResult evaluate(mlir::Operation &op);
  mlir::LogicalResult evaluateCollective(mlir::Operation &op);
  mlir::LogicalResult evaluateFor(mlir::scf::ForOp loop);
  mlir::LogicalResult evaluateIf(mlir::scf::IfOp op);
  mlir::LogicalResult evaluateWhile(mlir::scf::WhileOp loop);
  mlir::LogicalResult evaluateCall(mlir::func::CallOp call);

  /// The number that all devices have; an error on the op if they differ.
  mlir::FailureOr<int64_t> getCommon(mlir::Operation *op, mlir::Value value);
  /// On each device, all at once.
  void assign(mlir::ValueRange to, mlir::ValueRange from);

  MeshAttr mesh;
  std::vector<Interpretation> devices;
};

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_INTERPRETER_EXECUTION_H
