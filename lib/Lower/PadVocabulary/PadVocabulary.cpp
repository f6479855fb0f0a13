//===- PadVocabulary.cpp - heddle-pad-vocabulary --------------------------===//
//
//   %x = contract [bsh, vh -> bsv] %n, %w   : 8x1024x50257
//   %g = cross_entropy_grad %x, ...
//   %d = contract [bsv, bsh -> vh] %g, %n   : 50257x768
//
// becomes, with the letter v padded to 50304,
//
//   %w' = tensor.pad %w                     (zeros)
//   %x' = contract [bsh, vh -> bsv] %n, %w' : 8x1024x50304
//   %m  = mask_padding %x' lowest           (in the kernel that reads %x')
//   %g' = cross_entropy_grad %m, ...
//   %d  = the first rows of contract [bsv, bsh -> vh] %g', %n
//
//===----------------------------------------------------------------------===//

#include "../KernelPlan/KernelTarget.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"

namespace heddle {
#define GEN_PASS_DEF_PADVOCABULARYPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Tensor cores need rows that begin at multiples of 16 bytes. Other rows are
/// padded to a multiple of `kPaddedElements`.
static constexpr int64_t kRowBytes = 16, kPaddedElements = 64;

static RankedTensorType withSize(RankedTensorType type, int64_t dim,
                                 int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return type.clone(shape);
}

namespace {

/// Pads the rows of one product and of the values that are computed from them.
class Padder {
public:
  /// The product's result has at least one dimension.
  Padder(IRRewriter &rewriter, ContractOp logits)
      : rewriter(rewriter), logits(logits),
        letter(logits.getContraction().getResult().getValue().back()),
        size(logits.getType().getShape().back()),
        padded(llvm::alignTo(size, kPaddedElements)) {}

  /// Whether the product's rows are misaligned, and only losses read them.
  bool isWanted();
  void run();

private:
  static bool hasLetter(StringAttr letters, char letter) {
    return letters.getValue().contains(letter);
  }
  Value pad(Value value, int64_t dim);
  void replaceLoss(CrossEntropyOp loss, Value whole, Value masked);
  void replaceGradient(CrossEntropyGradOp gradient, Value masked);
  void replaceReader(OpOperand &use, Value gradient);

  IRRewriter &rewriter;
  ContractOp logits;
  char letter;
  int64_t size, padded;
  Value table; ///< padded
};

} // namespace

bool Padder::isWanted() {
  Type element = logits.getType().getElementType();
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  if (bytes > 2 || size * bytes % kRowBytes == 0 ||
      2 * size < kPaddedElements || logits.getBias() ||
      logits.getAccumulate() ||
      hasLetter(logits.getContraction().getLhs(), letter) ||
      !hasLetter(logits.getContraction().getRhs(), letter))
    return false;
  return llvm::all_of(logits.getResult().getUsers(), [&](Operation *user) {
    if (auto loss = dyn_cast<CrossEntropyOp>(user))
      return loss.getLogits() == logits.getResult();
    auto gradient = dyn_cast<CrossEntropyGradOp>(user);
    return gradient && gradient.getLogits() == logits.getResult();
  });
}

Value Padder::pad(Value value, int64_t dim) {
  auto type = cast<RankedTensorType>(value.getType());
  // Pads the operand of a conversion, so that one kernel both pads and
  // converts.
  if (auto narrow = value.getDefiningOp<arith::TruncFOp>())
    return rewriter.create<arith::TruncFOp>(
        narrow.getLoc(), withSize(type, dim, padded), pad(narrow.getIn(), dim));
  SmallVector<OpFoldResult> low(type.getRank(), rewriter.getIndexAttr(0)),
      high(low);
  high[dim] = rewriter.getIndexAttr(padded - size);
  Value zero = rewriter.create<arith::ConstantOp>(
      logits.getLoc(), rewriter.getZeroAttr(type.getElementType()));
  return rewriter.create<tensor::PadOp>(
      value.getLoc(), withSize(type, dim, padded), value, low, high, zero);
}

void Padder::run() {
  rewriter.setInsertionPoint(logits);
  StringRef letters = logits.getContraction().getRhs().getValue();
  table = pad(logits.getRhs(), int64_t(letters.find(letter)));
  int64_t last = logits.getType().getRank() - 1;
  RankedTensorType type = withSize(logits.getType(), last, padded);
  Value whole =
      rewriter.create<ContractOp>(logits.getLoc(), type, logits.getLhs(), table,
                                  logits.getContractionAttr(),
                                  logits.getPassAttr(), logits.getOpNameAttr());
  Value zero = rewriter.create<arith::ConstantIndexOp>(logits.getLoc(), 0);
  Value masked = rewriter.create<MaskPaddingOp>(
      logits.getLoc(), type, whole, zero, ArrayRef<int64_t>{last},
      ArrayRef<int64_t>{size}, PaddingValue::Lowest);
  SmallVector<Operation *> users(logits.getResult().getUsers());
  for (Operation *user : users) {
    rewriter.setInsertionPoint(user);
    if (auto loss = dyn_cast<CrossEntropyOp>(user))
      replaceLoss(loss, whole, masked);
    else
      replaceGradient(cast<CrossEntropyGradOp>(user), masked);
  }
  rewriter.eraseOp(logits);
}

/// Reads the target's logit from the unmasked logits, because a kernel keeps no
/// row of masked logits in memory.
void Padder::replaceLoss(CrossEntropyOp loss, Value whole, Value masked) {
  Location loc = loss.getLoc();
  RankedTensorType rows = loss.getLoss().getType();
  Value lse =
      rewriter.create<LogSumExpOp>(loc, rows, masked, loss.getOpNameAttr());
  Value picked =
      rewriter.create<PickOp>(loc, rows, whole, loss.getTargets(),
                              /*offset=*/Value(), loss.getOpNameAttr());
  auto ids = cast<RankedTensorType>(loss.getTargets().getType());
  Value ignored = rewriter.create<arith::CmpIOp>(
      loc, arith::CmpIPredicate::eq, loss.getTargets(),
      rewriter.create<arith::ConstantOp>(
          loc, DenseElementsAttr::get(
                   ids, rewriter.getI32IntegerAttr(loss.getIgnoreIndex()))));
  Value zeros =
      rewriter.create<arith::ConstantOp>(loc, rewriter.getZeroAttr(rows));
  Value difference = rewriter.create<arith::SubFOp>(loc, lse, picked);
  Value result =
      rewriter.create<arith::SelectOp>(loc, ignored, zeros, difference);
  rewriter.replaceOp(loss, ValueRange{result, lse});
}

void Padder::replaceGradient(CrossEntropyGradOp gradient, Value masked) {
  auto type = cast<RankedTensorType>(gradient.getResult().getType());
  Value whole = rewriter.create<CrossEntropyGradOp>(
      gradient.getLoc(), withSize(type, type.getRank() - 1, padded), masked,
      gradient.getTargets(), gradient.getLse(), gradient.getLossGrad(),
      gradient.getOffset(), gradient.getIgnoreIndexAttr(),
      gradient.getOpNameAttr());
  for (OpOperand &use :
       llvm::make_early_inc_range(gradient.getResult().getUses()))
    replaceReader(use, whole);
  rewriter.eraseOp(gradient);
}

static Value slice(IRRewriter &rewriter, Value whole, RankedTensorType type) {
  SmallVector<OpFoldResult> offsets(type.getRank(), rewriter.getIndexAttr(0)),
      sizes = getAsIndexOpFoldResult(type.getContext(), type.getShape()),
      strides(type.getRank(), rewriter.getIndexAttr(1));
  return rewriter.create<tensor::ExtractSliceOp>(whole.getLoc(), type, whole,
                                                 offsets, sizes, strides);
}

void Padder::replaceReader(OpOperand &use, Value gradient) {
  Operation *op = use.getOwner();
  rewriter.setInsertionPoint(op);
  auto product = dyn_cast<ContractOp>(op);
  bool isLhs = use.getOperandNumber() == 0;
  StringAttr letters, others;
  if (product) {
    letters = isLhs ? product.getContraction().getLhs()
                    : product.getContraction().getRhs();
    others = isLhs ? product.getContraction().getRhs()
                   : product.getContraction().getLhs();
  }
  if (!product || use.getOperandNumber() > 1 ||
      product.getLhs() == product.getRhs() || product.getBias() ||
      product.getAccumulate()) {
    use.set(
        slice(rewriter, gradient, cast<RankedTensorType>(use.get().getType())));
    return;
  }
  char name = letters.getValue().back();
  Value other = isLhs ? product.getRhs() : product.getLhs();
  // A product that sums over the vocabulary reads the padded table.
  if (size_t dim = others.getValue().find(name); dim != StringRef::npos)
    other =
        other == logits.getRhs() &&
                others.getValue().size() ==
                    logits.getContraction().getRhs().size() &&
                dim == logits.getContraction().getRhs().getValue().find(letter)
            ? table
            : pad(other, int64_t(dim));
  StringRef result = product.getContraction().getResult().getValue();
  RankedTensorType type = product.getType();
  size_t dim = result.find(name);
  bool isOfResult = dim != StringRef::npos;
  Value whole = rewriter.create<ContractOp>(
      product.getLoc(), isOfResult ? withSize(type, dim, padded) : type,
      isLhs ? gradient : other, isLhs ? other : gradient,
      product.getContractionAttr(), product.getPassAttr(),
      product.getOpNameAttr());
  rewriter.replaceOp(product,
                     isOfResult ? slice(rewriter, whole, type) : whole);
}

namespace {
struct PadVocabulary : heddle::impl::PadVocabularyPassBase<PadVocabulary> {
  void runOnOperation() override {
    if (!lower::KernelTarget::of(getOperation()).isGpu)
      return;
    IRRewriter rewriter(&getContext());
    std::vector<Padder> padders;
    getOperation().walk([&](ContractOp product) {
      // A scalar has no rows.
      if (product.getType().getRank() == 0)
        return;
      Padder padder(rewriter, product);
      if (padder.isWanted())
        padders.push_back(padder);
    });
    for (Padder &padder : padders)
      padder.run();
  }
};
} // namespace
