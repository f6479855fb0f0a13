//===- VerifyKernels.cpp - Checks programs and their kernels --------------===//

#include "../PlanArenas/ProgramBuffers.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_VERIFYKERNELSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static LogicalResult verifyCalls(func::FuncOp program,
                                 const SymbolTable &symbols) {
  for (auto call : program.getOps<func::CallOp>()) {
    Operation *callee = symbols.lookup(call.getCallee());
    if (!callee || !callee->hasAttr(kKernelAttrName))
      return call.emitOpError()
             << "expected a call of a kernel, got " << call.getCalleeAttr()
             << ", which has no " << kKernelAttrName;
  }
  return success();
}

static bool isStaticTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape();
}

static LogicalResult verifyKernelTypes(func::FuncOp kernel) {
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes()))
    if (!isStaticTensor(type) && !type.isIndex())
      return kernel.emitOpError()
             << "expected argument " << i
             << " of a kernel to be a tensor of static shape or an index, got "
             << type;
  for (auto [i, type] : llvm::enumerate(kernel.getResultTypes()))
    if (!isStaticTensor(type))
      return kernel.emitOpError()
             << "expected result " << i
             << " of a kernel to be a tensor of static shape, got " << type;
  return success();
}

static LogicalResult verifyKernelOps(func::FuncOp kernel) {
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitOpError() << "expected a kernel of one block";
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (!isa<linalg::GenericOp, ReduceBlocksOp, linalg::FillOp, tensor::EmptyOp,
             arith::ConstantOp>(op))
      return op.emitOpError()
             << "expected linalg.generic or heddle.reduce_blocks in a kernel, "
                "and what these start from";
    for (Type type : op.getResultTypes())
      if (isa<TensorType>(type) && !isStaticTensor(type))
        return op.emitOpError()
               << "expected tensors of static shape in a kernel, got " << type;
  }
  return success();
}

static LogicalResult verifyKernelAttributes(func::FuncOp kernel) {
  auto rowDims = kernel->getAttrOfType<IntegerAttr>(kRowDimsAttrName);
  if (!rowDims || rowDims.getInt() < 0)
    return kernel.emitOpError() << "expected " << kRowDimsAttrName
                                << " of a kernel, a number of at least 0";
  auto inplace = kernel->getAttrOfType<ArrayAttr>(kInplaceAttrName);
  if (!inplace)
    return success();
  if (inplace.size() != kernel.getNumResults())
    return kernel.emitOpError()
           << "expected " << kInplaceAttrName << " of a kernel to hold "
           << kernel.getNumResults() << " lists, one for each result, got "
           << inplace.size();
  for (auto [result, list] : llvm::zip(kernel.getResultTypes(),
                                       inplace.getAsRange<DenseI64ArrayAttr>()))
    for (int64_t operand : list.asArrayRef())
      if (operand < 0 || operand >= int64_t(kernel.getNumArguments()) ||
          kernel.getArgumentTypes()[operand] != result)
        return kernel.emitOpError() << "expected " << kInplaceAttrName
                                    << " to name arguments of type " << result
                                    << ", got " << operand;
  return success();
}

namespace {
struct VerifyKernelsPass
    : heddle::impl::VerifyKernelsPassBase<VerifyKernelsPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(verifyFunction(function, symbols)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

  static LogicalResult verifyFunction(func::FuncOp function,
                                      const SymbolTable &symbols) {
    if (function->hasAttr(kKernelAttrName))
      return success(succeeded(verifyKernelTypes(function)) &&
                     succeeded(verifyKernelOps(function)) &&
                     succeeded(verifyKernelAttributes(function)));
    if (function.isExternal())
      return success();
    return success(succeeded(verifyProgramForm(function)) &&
                   succeeded(verifyCalls(function, symbols)));
  }
};
} // namespace
