//===- ControlFlow.h - Values that cross regions and calls ------*- C++ -*-===//
//
// Structured control flow and calls compute nothing: they pass values on. A
// value that is passed on has one type, so on one device one local type, so one
// sharding. The values that such an op defines fall into classes ("carried"
// values), each with the operands that flow into it:
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

/// A class of tensors that must have one sharding, and the operands that flow
/// into it.
struct CarriedValue {
  llvm::SmallVector<mlir::Value, 2> values;
  llvm::SmallVector<mlir::OpOperand *, 2> sources;

  mlir::RankedTensorType getType() const {
    return mlir::cast<mlir::RankedTensorType>(values.front().getType());
  }
};

/// Whether the partitioner looks into the op's regions: it has no sharding rule
/// and passes control to them one at a time.
bool isControlFlow(mlir::Operation *op);

/// Whether an operand or result of the op is a tensor.
bool hasTensors(mlir::Operation *op);

/// Whether mesh axes are assigned to factors of the op: it computes with
/// tensors, by its rule, where loads, stores, control flow and calls pass them
/// on.
bool hasFactors(mlir::Operation *op);

/// The classes of tensors that the op's regions and results receive. An error,
/// on the op, for regions of several blocks and for tensors of which it is not
/// known where they come from.
mlir::FailureOr<llvm::SmallVector<CarriedValue>>
getCarriedValues(mlir::Operation *op);

/// Calls `body` for the function's block and those of its control flow.
void forEachBlock(mlir::func::FuncOp function,
                  llvm::function_ref<void(mlir::Block &)> body);

/// Calls `body` for every op of the function that is partitioned, in order of
/// the text: an op before those in its regions.
void forEachOp(mlir::func::FuncOp function,
               llvm::function_ref<void(mlir::Operation *)> body);
void forEachOp(mlir::Block &block,
               llvm::function_ref<void(mlir::Operation *)> body);

/// The function of this module that is called; an error, on the call, if there
/// is none or it has no body.
mlir::FailureOr<mlir::func::FuncOp> getCallee(mlir::func::CallOp call);

/// Emits an error if a function calls itself, directly or through others.
mlir::LogicalResult verifyNoRecursion(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_SHARDING_CONTROLFLOW_H
