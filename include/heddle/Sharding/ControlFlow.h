//===- ControlFlow.h - Values that cross regions and calls ------*- C++ -*-===//
//
// Structured control flow and calls compute nothing: they pass values on. A
// value that is passed on has one type, so on one device one local type, and
// therefore one sharding. The values that such an op defines fall into classes
// ("carried" values), each with the operands that flow into it:
//
//   scf.for    {iteration argument, result}   from  init, yield
//   scf.if     {result}                       from  both yields
//   scf.while  {argument of "before"}         from  init, yield of "after"
//              {argument of "after", result}  from  scf.condition
//   a function {argument}                     from  the operand of each call
//              {result of each call}          from  the operand of return
//
// The classes of an op are found through RegionBranchOpInterface, so that loops
// of other dialects are treated alike.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SHARDING_CONTROLFLOW_H
#define HEDDLE_SHARDING_CONTROLFLOW_H

#include "heddle/Sharding/FactorShardings.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"

namespace heddle {

/// A class of tensors that must have the same sharding, and the operands that
/// flow into them.
struct CarriedValue {
  llvm::SmallVector<mlir::Value, 2> values;
  llvm::SmallVector<mlir::OpOperand *, 2> sources;

  mlir::RankedTensorType getType() const {
    return mlir::cast<mlir::RankedTensorType>(values.front().getType());
  }
};

/// Returns whether the partitioner looks into the op's regions: the op has no
/// sharding rule, and passes control to its regions one at a time.
bool isControlFlow(mlir::Operation *op);

/// Returns whether an operand or result of the op is a tensor.
bool hasTensors(mlir::Operation *op);

/// Returns whether the op has factors to which mesh axes are assigned: it
/// computes with tensors. Loads, stores, control flow and calls only pass them
/// on.
bool hasFactors(mlir::Operation *op);

/// Returns the classes of tensors that the op's regions and results receive.
/// Emits an error on the op if a region has several blocks or if the origin of
/// a tensor is unknown.
mlir::FailureOr<llvm::SmallVector<CarriedValue>>
getCarriedValues(mlir::Operation *op);

/// Calls `body` for the function's blocks and those of its control flow.
void forEachBlock(mlir::func::FuncOp function,
                  llvm::function_ref<void(mlir::Block &)> body);

/// Calls `body` for every op of the function that is partitioned, in textual
/// order: an op comes before those in its regions.
void forEachOp(mlir::func::FuncOp function,
               llvm::function_ref<void(mlir::Operation *)> body);
void forEachOp(mlir::Block &block,
               llvm::function_ref<void(mlir::Operation *)> body);

/// Returns the function of this module that is called. Emits an error on the
/// call if there is none or if it has no body.
mlir::FailureOr<mlir::func::FuncOp> getCallee(mlir::func::CallOp call);

/// Emits an error if a function calls itself, directly or through others.
mlir::LogicalResult verifyNoRecursion(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_SHARDING_CONTROLFLOW_H
