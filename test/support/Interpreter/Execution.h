//===- Execution.h - One or many devices through a program ------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_INTERPRETER_EXECUTION_H
#define HEDDLE_TEST_SUPPORT_INTERPRETER_EXECUTION_H

#include "Interpretation.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace heddle {

/// Executes a program on all devices together, op by op. Each device evaluates
/// an op on its own values. A collective reads the values of all devices: if it
/// has a start and a wait, it reads them at the start, and its result appears at
/// the wait. All devices must take the same branch.
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
  /// Runs all ops of a block except the terminator.
  mlir::LogicalResult run(mlir::Block &block);
  mlir::LogicalResult evaluate(mlir::Operation &op);
  mlir::LogicalResult evaluateCommunication(mlir::Operation &op);
  mlir::LogicalResult evaluateCollective(mlir::Operation &op);
  mlir::LogicalResult evaluateFor(mlir::scf::ForOp loop);
  mlir::LogicalResult evaluateIf(mlir::scf::IfOp op);
  mlir::LogicalResult evaluateWhile(mlir::scf::WhileOp loop);
  mlir::LogicalResult evaluateCall(mlir::func::CallOp call);

  /// Returns the value of a scalar that must be equal on all devices. Emits an
  /// error on `op` if two devices differ.
  mlir::FailureOr<int64_t> getCommon(mlir::Operation *op, mlir::Value value);
  /// Sets the values `to` to the values `from` on each device. Reads all of
  /// `from` first, so the two may overlap.
  void assign(mlir::ValueRange to, mlir::ValueRange from);

  MeshAttr mesh;
  std::vector<Interpretation> devices;
};

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_INTERPRETER_EXECUTION_H
