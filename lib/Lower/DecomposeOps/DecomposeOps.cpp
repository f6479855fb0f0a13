//===- DecomposeOps.cpp - Model ops become structured ops -----------------===//

#include "Decomposer.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_DECOMPOSEOPSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

namespace {

/// Sizes decide loops and places in memory.
LogicalResult expectStaticShapes(Operation *op) {
  for (Type type :
       llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()),
                                SmallVector<Type>(op->getResultTypes())))
    if (auto tensor = dyn_cast<TensorType>(type);
        tensor && !tensor.hasStaticShape())
      return op->emitOpError()
             << "cannot be compiled: expected static shapes, got " << tensor
             << "; compile the program for the sizes that it runs with";
  return success();
}

struct DecomposeOps : heddle::impl::DecomposeOpsPassBase<DecomposeOps> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal() && !func->hasAttr("heddle.kernel"))
        if (failed(decompose(func)))
          return signalPassFailure();
  }

  LogicalResult decompose(func::FuncOp func) {
    IRRewriter rewriter(func.getContext());
    SmallVector<Operation *> ops;
    for (Block &block : func.getBody())
      for (Operation &op : block)
        ops.push_back(&op);
    for (Operation *op : ops) {
      if (failed(expectStaticShapes(op)))
        return failure();
      rewriter.setInsertionPoint(op);
      if (auto structured = dyn_cast<linalg::LinalgOp>(op);
          structured && !isa<linalg::TransposeOp, linalg::FillOp>(op)) {
        if (failed(normalizeStructured(rewriter, structured)))
          return failure();
        continue;
      }
      if (isa<arith::ConstantOp>(op))
        continue;
      if (decomposeNormalization(op, rewriter) ||
          decomposeVocabulary(op, rewriter) ||
          decomposeElementwise(op, rewriter) || decomposeShape(op, rewriter) ||
          decomposePad(op, rewriter))
        rewriter.eraseOp(op);
    }
    materializeConstants(func, rewriter);
    return success();
  }

  /// Splat constants that a structured op reads are folded into it when kernels
  /// are formed; all others (returned, stored, an operand of a product) become
  /// an op that writes them.
  void materializeConstants(func::FuncOp func, OpBuilder &builder) {
    SmallVector<arith::ConstantOp> constants;
    func.walk([&](arith::ConstantOp op) {
      if (auto value = dyn_cast<SplatElementsAttr>(op.getValue()))
        if (isa<RankedTensorType>(op.getType()))
          constants.push_back(op);
    });
    for (arith::ConstantOp op : constants) {
      auto isOther = [](OpOperand &use) {
        return !isa<linalg::LinalgOp, ReduceBlocksOp>(use.getOwner());
      };
      if (!llvm::any_of(op->getUses(), isOther))
        continue;
      builder.setInsertionPointAfter(op);
      Decomposer d(builder, op.getLoc());
      auto type = cast<RankedTensorType>(op.getType());
      auto element =
          cast<SplatElementsAttr>(op.getValue()).getSplatValue<TypedAttr>();
      Value filled = d.map(type, {}, [&](Body &b, ValueRange) -> Value {
        return b.create<arith::ConstantOp>(element);
      });
      op.getResult().replaceUsesWithIf(filled, isOther);
    }
  }
};

} // namespace
