//===- DecomposeOps.cpp - Model ops become structured ops -----------------===//

#include "Decomposer.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_DECOMPOSEOPSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Puts the parallel loops first, in the result's order, and the reductions
/// after them: the order that kernels rely on.
static FailureOr<linalg::LinalgOp> normalize(RewriterBase &rewriter,
                                             linalg::LinalgOp op) {
  if (!isa<linalg::GenericOp>(op)) {
    rewriter.setInsertionPoint(op);
    FailureOr<linalg::GenericOp> generic =
        linalg::generalizeNamedOp(rewriter, op);
    if (failed(generic))
      return failure();
    op = *generic;
  }
  AffineMap result = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  if (!result.isProjectedPermutation())
    return op->emitOpError()
           << "expected the result's indexing map to be a projected "
              "permutation, got "
           << AffineMapAttr::get(result)
           << "; write it as an op whose loops run over the result";
  SmallVector<unsigned> order;
  for (AffineExpr expr : result.getResults())
    order.push_back(cast<AffineDimExpr>(expr).getPosition());
  for (unsigned dim = 0; dim < op.getNumLoops(); ++dim)
    if (!llvm::is_contained(order, dim))
      order.push_back(dim);
  if (llvm::is_sorted(order))
    return op;
  rewriter.setInsertionPoint(op);
  FailureOr<linalg::GenericOp> sorted = linalg::interchangeGenericOp(
      rewriter, cast<linalg::GenericOp>(op.getOperation()), order);
  if (failed(sorted))
    return op->emitOpError() << "could not reorder the loops";
  return cast<linalg::LinalgOp>(sorted->getOperation());
}

namespace {

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
      rewriter.setInsertionPoint(op);
      if (auto structured = dyn_cast<linalg::LinalgOp>(op);
          structured && !isa<linalg::TransposeOp, linalg::FillOp>(op)) {
        if (failed(normalize(rewriter, structured)))
          return failure();
        continue;
      }
      if (isa<arith::ConstantOp>(op))
        continue;
      if (decomposeNormalization(op, rewriter) ||
          decomposeVocabulary(op, rewriter) ||
          decomposeElementwise(op, rewriter) || decomposeShape(op, rewriter))
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
