//===- RaiseContractions.cpp - heddle-raise-contractions ------------------===//

#include "../Products/ContractionLayout.h"
#include "../Products/ProgramOrder.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Support/Zeros.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_RAISECONTRACTIONSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns whether `value` is the block's argument, perhaps extended to a wider
/// type.
static bool isArgument(Value value, BlockArgument argument) {
  if (auto extend = value.getDefiningOp<arith::ExtFOp>())
    value = extend.getIn();
  return value == argument;
}

/// Returns whether the body only computes out + lhs * rhs, in any order.
static bool addsProducts(linalg::LinalgOp op) {
  Block &body = *op.getBlock();
  Value sum = body.getTerminator()->getOperand(0);
  auto add = sum.getDefiningOp<arith::AddFOp>();
  if (!add || add->getBlock() != &body)
    return false;
  BlockArgument lhs = body.getArgument(0), rhs = body.getArgument(1);
  for (auto [out, product] : {std::pair(add.getLhs(), add.getRhs()),
                              std::pair(add.getRhs(), add.getLhs())}) {
    auto multiply = product.getDefiningOp<arith::MulFOp>();
    if (out != body.getArgument(2) || !multiply)
      continue;
    Value a = multiply.getLhs(), b = multiply.getRhs();
    if ((isArgument(a, lhs) && isArgument(b, rhs)) ||
        (isArgument(a, rhs) && isArgument(b, lhs)))
      return true;
  }
  return false;
}

/// Returns the letters of an operand, where loop 0 is a and loop 1 is b.
/// Nullopt if the map does more than choose loops, or if there are more loops
/// than letters.
static std::optional<std::string> getLetters(AffineMap map) {
  if (!map.isProjectedPermutation() || map.getNumDims() > 26)
    return std::nullopt;
  std::string letters;
  for (AffineExpr expr : map.getResults())
    letters += char('a' + cast<AffineDimExpr>(expr).getPosition());
  return letters;
}

/// Returns the operand behind ops that only transpose or repeat, and sets
/// `letters` to that operand's letters. The product reads it directly, so
/// nothing is copied.
static Value skipCopies(Value value, std::string &letters) {
  while (auto copy = value.getDefiningOp<linalg::LinalgOp>()) {
    if (copy.getNumDpsInputs() != 1 || copy.getNumDpsInits() != 1 ||
        !isa<RankedTensorType>(copy.getDpsInputOperand(0)->get().getType()) ||
        copy.getBlock()->getTerminator()->getOperand(0) !=
            copy.getBlock()->getArgument(0))
      break;
    SmallVector<AffineMap> maps = copy.getIndexingMapsArray();
    if (!maps[0].isProjectedPermutation() || !maps[1].isPermutation())
      break;
    std::string from;
    for (AffineExpr expr : maps[0].getResults())
      from += letters[*maps[1].getResultPosition(expr)];
    letters = from;
    value = copy.getDpsInputOperand(0)->get();
  }
  return value;
}

/// Returns whether the letters form a product. A letter of only one operand
/// that the result lacks would be a sum over that operand alone. A letter of
/// the result that neither operand has would be a broadcast. Neither is a
/// product.
static bool isProduct(StringRef lhs, StringRef rhs, StringRef result,
                      unsigned numLoops) {
  for (unsigned loop = 0; loop < numLoops; ++loop) {
    char letter = char('a' + loop);
    bool inLhs = lhs.contains(letter), inRhs = rhs.contains(letter);
    if (result.contains(letter) ? !inLhs && !inRhs : !inLhs || !inRhs)
      return false;
  }
  return true;
}

namespace {
struct RaiseContraction : OpInterfaceRewritePattern<linalg::LinalgOp> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(linalg::LinalgOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.hasPureTensorSemantics() || op.getNumDpsInputs() != 2 ||
        op.getNumDpsInits() != 1 || op.getNumReductionLoops() == 0 ||
        !addsProducts(op))
      return failure();
    // Keeps the op. heddle-decompose-ops then emits an error on the undefined
    // values.
    Value init = op.getDpsInitOperand(0)->get();
    if (init.getDefiningOp<tensor::EmptyOp>())
      return failure();

    std::optional<std::string> letters[3];
    for (auto [map, list] : llvm::zip(op.getIndexingMapsArray(), letters)) {
      list = getLetters(map);
      if (!list)
        return failure();
    }
    Value operands[2];
    for (auto [i, operand] : llvm::enumerate(operands)) {
      Value given = op.getDpsInputOperand(i)->get();
      std::string through = *letters[i];
      operand = skipCopies(given, through);
      bool isStillProduct = isProduct(i == 0 ? through : *letters[0],
                                      i == 1 ? through : *letters[1],
                                      *letters[2], op.getNumLoops());
      if (isStillProduct)
        letters[i] = through;
      else
        operand = given;
    }
    if (!isProduct(*letters[0], *letters[1], *letters[2], op.getNumLoops()))
      return failure();
    auto [lhs, rhs] = operands;
    auto lhsType = dyn_cast<RankedTensorType>(lhs.getType());
    auto rhsType = dyn_cast<RankedTensorType>(rhs.getType());
    auto type = dyn_cast<RankedTensorType>(init.getType());
    if (!lhsType || !rhsType || !type || !isSupported(lhsType, rhsType, type))
      return failure();
    MLIRContext *context = rewriter.getContext();
    auto contraction =
        ContractionAttr::get(context, StringAttr::get(context, *letters[0]),
                             StringAttr::get(context, *letters[1]),
                             StringAttr::get(context, *letters[2]));
    std::string why;
    std::optional<ProductLayout> layout =
        getProductLayout(contraction, lhsType, rhsType, type, {}, why);
    // A product of two vectors is better as a row of a kernel, fused with its
    // neighbours.
    if (!layout || (layout->m == 1 && layout->n == 1))
      return failure();
    StringRef name = getOpName(op);
    rewriter.replaceOpWithNewOp<ContractOp>(
        op, type, lhs, rhs, /*bias=*/Value(),
        /*accumulate=*/isZeros(init) ? Value() : init, contraction,
        /*bias_along=*/DenseI64ArrayAttr(),
        ContractPassAttr::get(rewriter.getContext(), ContractPass::Forward),
        name.empty() ? StringAttr() : rewriter.getStringAttr(name));
    return success();
  }

  /// Returns whether the runtime has the product. Any other one becomes a
  /// kernel.
  static bool isSupported(RankedTensorType lhs, RankedTensorType rhs,
                          RankedTensorType result) {
    Type element = lhs.getElementType();
    return (element.isF32() || element.isBF16()) &&
           rhs.getElementType() == element &&
           (result.getElementType() == element ||
            result.getElementType().isF32()) &&
           lhs.hasStaticShape() && rhs.hasStaticShape() &&
           result.hasStaticShape() && lhs.getNumElements() > 0 &&
           rhs.getNumElements() > 0 && result.getNumElements() > 0;
  }
};

struct RaiseContractions
    : heddle::impl::RaiseContractionsPassBase<RaiseContractions> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RaiseContraction>(&getContext());
    if (failed(applyInProgramOrder(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
