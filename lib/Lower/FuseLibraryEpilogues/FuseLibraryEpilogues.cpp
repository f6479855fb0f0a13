//===- FuseLibraryEpilogues.cpp - heddle-fuse-library-epilogues -----------===//

#include "../KernelPlan/KernelTarget.h"
#include "../Products/ContractionLayout.h"
#include "../Products/ProgramOrder.h"
#include "dialects/Heddle/LibraryOps.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_FUSELIBRARYEPILOGUESPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns the location of a product, with the operators that it and a fused op
/// serve.
static Location locationOfBoth(ContractOp product, Operation *fused) {
  ServesAttr first = getServes(product), second = getServes(fused);
  if (!first || !second)
    return withServes(product.getLoc(), first ? first : second);
  return withServes(product.getLoc(),
                    ServesAttr::getUnion(first.getKind(), {first, second}));
}

/// Returns whether the product runs on tensor cores. For other products,
/// cuBLASLt may have no algorithm with an epilogue. The runtime would then
/// compute the epilogue by kernels of its own.
static bool hasEpilogues(ContractOp product) {
  return product.getLhs().getType().getElementTypeBitWidth() == 16;
}

/// Returns the product that computes the value, if the library can apply a
/// function to its elements. It must be one matrix product of 16-bit operands.
/// Its result has the operands' type, and its rows begin at multiples of 8
/// elements.
static ContractOp getElementwiseProduct(Value value) {
  // "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD must be divisible by 8".
  constexpr int64_t kStep = 8;
  auto product = value.getDefiningOp<ContractOp>();
  if (!product || !hasEpilogues(product) || product.getAccumulate() ||
      product.getLhs().getType().getElementType() !=
          product.getType().getElementType() ||
      (product.getBias() && product.getBias().getType().getElementType() !=
                                product.getType().getElementType()))
    return nullptr;
  std::string why;
  std::optional<ProductLayout> layout =
      getProductLayout(product.getContraction(), product.getLhs().getType(),
                       product.getRhs().getType(), product.getType(),
                       product.getBiasAlong(), why);
  if (!layout || !layout->loops.empty() || layout->n % kStep != 0 ||
      layout->cRowStride % kStep != 0)
    return nullptr;
  return product;
}

static FusedContractOp build(PatternRewriter &rewriter, ContractOp product,
                             Operation *fused, ProductEpilogue epilogue,
                             Type extra, Value input) {
  return rewriter.create<FusedContractOp>(
      locationOfBoth(product, fused), product.getType(), extra,
      product.getLhs(), product.getRhs(), product.getBias(),
      product.getAccumulate(), input, epilogue, product.getContraction(),
      product.getBiasAlongAttr(), product.getOpNameAttr());
}

namespace {
/// Fuses gelu(product + bias) if another op also reads the product, such as the
/// gradient of gelu in training.
struct FuseGelu : OpRewritePattern<GeluOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GeluOp gelu,
                                PatternRewriter &rewriter) const override {
    ContractOp product = getElementwiseProduct(gelu.getX());
    if (!product || product.getResult().hasOneUse() ||
        product->getBlock() != gelu->getBlock() ||
        gelu.getApproximate() != GeluApproximation::Tanh)
      return failure();
    rewriter.setInsertionPoint(product);
    auto fused = build(rewriter, product, gelu, ProductEpilogue::Gelu,
                       product.getType(), nullptr);
    rewriter.replaceOp(gelu, fused.getResult());
    rewriter.replaceOp(product, fused.getExtra());
    return success();
  }
};

/// Fuses product * gelu'(x).
struct FuseGeluGrad : OpRewritePattern<GeluGradOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GeluGradOp grad,
                                PatternRewriter &rewriter) const override {
    ContractOp product = getElementwiseProduct(grad.getYGrad());
    if (!product || !product.getResult().hasOneUse() || product.getBias() ||
        product->getBlock() != grad->getBlock() ||
        grad.getApproximate() != GeluApproximation::Tanh)
      return failure();
    rewriter.setInsertionPoint(grad);
    auto fused = build(rewriter, product, grad, ProductEpilogue::GeluGrad,
                       Type(), grad.getX());
    rewriter.replaceOp(grad, fused.getResult());
    rewriter.eraseOp(product);
    return success();
  }
};

/// Fuses a product with the sums of one of its operands over the letters that
/// the product sums over. In training, the product computes the gradient of a
/// weight, and the sums are the gradient of the bias.
struct FuseSums : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReduceOp reduce,
                                PatternRewriter &rewriter) const override {
    if (reduce.getKind() != ReductionKind::Sum)
      return failure();
    for (OpOperand &use : reduce.getX().getUses()) {
      auto product = dyn_cast<ContractOp>(use.getOwner());
      if (!product || product->getBlock() != reduce->getBlock() ||
          product.getBias() || use.getOperandNumber() > 1 ||
          !hasEpilogues(product) || product.getLhs() == product.getRhs() ||
          !isSumOf(reduce, product, use.getOperandNumber() == 0))
        continue;
      Operation *place = findPlace(reduce, product);
      if (!place)
        continue;
      rewriter.setInsertionPoint(place);
      auto fused = build(rewriter, product, reduce,
                         use.getOperandNumber() == 0 ? ProductEpilogue::LhsSums
                                                     : ProductEpilogue::RhsSums,
                         reduce.getType(), nullptr);
      rewriter.replaceOp(product, fused.getResult());
      rewriter.replaceOp(reduce, fused.getExtra());
      return success();
    }
    return failure();
  }

  static bool isSumOf(ReduceOp reduce, ContractOp product, bool ofLhs) {
    ContractionAttr contraction = product.getContraction();
    StringRef letters =
        (ofLhs ? contraction.getLhs() : contraction.getRhs()).getValue();
    for (auto [dim, letter] : llvm::enumerate(letters))
      if (llvm::is_contained(reduce.getOver(), int64_t(dim)) ==
          contraction.getResult().getValue().contains(letter))
        return false;
    std::string why;
    return cast<RankedTensorType>(reduce.getType()).getElementType() ==
               product.getType().getElementType() &&
           getSumsLayout(contraction, product.getLhs().getType(),
                         product.getRhs().getType(), product.getType(), ofLhs,
                         why);
  }

  /// Returns one of the two ops before which the fused op can stand: all
  /// operands of the fused op are defined there, and no result is used earlier.
  /// Returns null if the fused op can stand before neither.
  static Operation *findPlace(ReduceOp reduce, ContractOp product) {
    auto isKnown = [](Value value, Operation *op) {
      Operation *maker = value.getDefiningOp();
      return !maker || maker->isBeforeInBlock(op);
    };
    if (reduce->isBeforeInBlock(product)) {
      if (llvm::all_of(reduce->getUsers(), [&](Operation *user) {
            return product->isBeforeInBlock(
                product->getBlock()->findAncestorOpInBlock(*user));
          }))
        return product;
      bool allKnown = llvm::all_of(product->getOperands(), [&](Value operand) {
        return isKnown(operand, reduce);
      });
      return allKnown ? reduce.getOperation() : nullptr;
    }
    return product;
  }
};

struct FuseLibraryEpilogues
    : heddle::impl::FuseLibraryEpiloguesPassBase<FuseLibraryEpilogues> {
  void runOnOperation() override {
    if (!lower::KernelTarget::of(getOperation()).isGpu)
      return;
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseGelu, FuseGeluGrad, FuseSums>(&getContext());
    if (failed(applyInProgramOrder(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
