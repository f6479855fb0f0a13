//===- FuseEpilogues.cpp - heddle-fuse-epilogues --------------------------===//

#include "../Products/ContractionLayout.h"
#include "../Products/ProgramOrder.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_FUSEEPILOGUESPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns the product that computes the value if the value has one use, else
/// null.
static ContractOp getFreeProduct(Value value) {
  auto contract = value.getDefiningOp<ContractOp>();
  return contract && value.hasOneUse() ? contract : nullptr;
}

/// Returns the addition's location, with the operators that either op serves.
static Location locationOfBoth(Operation *product, Operation *add) {
  ServesAttr first = getServes(product), second = getServes(add);
  if (!first || !second)
    return withServes(add->getLoc(), first ? first : second);
  return withServes(add->getLoc(),
                    ServesAttr::getUnion(second.getKind(), {first, second}));
}

/// Replaces `add` by the product with one more operand. The new product stands
/// at the place of the old product if all operands are defined there, else at
/// the addition.
static void replace(PatternRewriter &rewriter, arith::AddFOp add,
                    ContractOp product, Value bias, DenseI64ArrayAttr biasAlong,
                    Value accumulate) {
  bool known =
      llvm::all_of(ArrayRef<Value>{bias, accumulate}, [&](Value operand) {
        Operation *op = operand ? operand.getDefiningOp() : nullptr;
        return !op || (op->getBlock() == product->getBlock() &&
                       op->isBeforeInBlock(product));
      });
  rewriter.setInsertionPoint(known ? product.getOperation() : add);
  add->setLoc(locationOfBoth(product, add));
  rewriter.replaceOpWithNewOp<ContractOp>(
      add, add.getType(), product.getLhs(), product.getRhs(), bias, accumulate,
      product.getContractionAttr(), biasAlong, product.getPassAttr(),
      product.getOpNameAttr());
  rewriter.eraseOp(product);
}

/// Returns whether `c` is a variable's value and the sum is stored to that
/// variable.
static bool isStoredBack(arith::AddFOp add, Value c) {
  auto load = c.getDefiningOp<LoadOp>();
  if (!load || !c.hasOneUse() || !add->hasOneUse())
    return false;
  auto store = dyn_cast<StoreOp>(*add->user_begin());
  return store && store.getVariableAttr() == load.getVariableAttr();
}

namespace {
/// Fuses product + broadcast(b) where the library can add b to every row.
struct FuseBias : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::AddFOp add,
                                PatternRewriter &rewriter) const override {
    for (auto [p, b] : {std::pair(add.getLhs(), add.getRhs()),
                        std::pair(add.getRhs(), add.getLhs())}) {
      ContractOp product = getFreeProduct(p);
      auto broadcast = b.getDefiningOp<BroadcastOp>();
      // A bias must be fused before a sum: the library adds no bias to a
      // product that already accumulates.
      if (!product || !broadcast || product.getBias() ||
          product.getAccumulate() || broadcast.getAlong().empty())
        continue;
      std::string why;
      if (!getProductLayout(product.getContraction(),
                            product.getLhs().getType(),
                            product.getRhs().getType(), product.getType(),
                            broadcast.getAlong(), why))
        continue;
      replace(rewriter, add, product, broadcast.getX(),
              broadcast.getAlongAttr(), nullptr);
      return success();
    }
    return failure();
  }
};

/// Fuses product + c where the product can be added to c's buffer: c is a
/// product with no other reader, or the value of a variable to which the sum is
/// stored.
struct FuseSum : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::AddFOp add,
                                PatternRewriter &rewriter) const override {
    for (auto [p, c] : {std::pair(add.getRhs(), add.getLhs()),
                        std::pair(add.getLhs(), add.getRhs())}) {
      ContractOp product = getFreeProduct(p);
      if (!product || product.getAccumulate() || !canAddTo(add, c, product))
        continue;
      replace(rewriter, add, product, product.getBias(),
              product.getBiasAlongAttr(), c);
      return success();
    }
    return failure();
  }

  static bool canAddTo(arith::AddFOp add, Value c, ContractOp product) {
    if (!c.hasOneUse() || c == product.getResult())
      return false;
    if (auto other = c.getDefiningOp<ContractOp>())
      // The later product adds to the earlier one's buffer.
      return other->getBlock() == product->getBlock() &&
             other->isBeforeInBlock(product);
    return isStoredBack(add, c);
  }
};

/// Fuses the gradient of an embedding table into the variable's value to which
/// it is added and stored.
struct FuseTableSum : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::AddFOp add,
                                PatternRewriter &rewriter) const override {
    for (auto [g, c] : {std::pair(add.getRhs(), add.getLhs()),
                        std::pair(add.getLhs(), add.getRhs())}) {
      auto gradient = g.getDefiningOp<EmbeddingGradOp>();
      if (!gradient || !g.hasOneUse() || gradient.getAccumulate() ||
          !isStoredBack(add, c))
        continue;
      add->setLoc(locationOfBoth(gradient, add));
      rewriter.replaceOpWithNewOp<EmbeddingGradOp>(
          add, add.getType(), gradient.getIds(), gradient.getYGrad(), c,
          gradient.getOffset(), gradient.getOpNameAttr());
      rewriter.eraseOp(gradient);
      return success();
    }
    return failure();
  }
};

struct FuseEpilogues : heddle::impl::FuseEpiloguesPassBase<FuseEpilogues> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseBias>(&getContext(), /*benefit=*/2);
    patterns.add<FuseSum, FuseTableSum>(&getContext());
    if (failed(applyInProgramOrder(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
