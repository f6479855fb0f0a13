//===- FusePacking.cpp - heddle-fuse-packing ------------------------------===//
//
// A packed gather along an inner dimension has the members' parts in a
// dimension of their own. A transposition brings them to their places:
//
//   [P, v, k] -> transpose -> [v, P, k] -> collapse [v, h] -> product
//
// This pass lets the product read [P, v, k]: its letter h becomes two letters.
// Likewise a product writes the packed operand of a scatter.
//
//===----------------------------------------------------------------------===//

#include "../Products/ContractionLayout.h"
#include "../Products/ProgramOrder.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_FUSEPACKINGPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

/// A tensor's type with a letter for each dimension.
struct Lettered {
  RankedTensorType type;
  std::string letters;
};

/// The letters of a contraction that are split into several letters.
class Splits {
public:
  explicit Splits(ContractOp op)
      : used(llvm::Twine(op.getContraction().getLhs().getValue() +
                         op.getContraction().getRhs().getValue())
                 .str()) {}

  /// Splits the letters of `whole` as a reshape to `parts` splits dimensions.
  /// Fails if the alphabet has too few letters.
  LogicalResult add(const Lettered &whole, RankedTensorType parts,
                    ArrayRef<ReassociationIndices> groups);
  Lettered apply(const Lettered &tensor) const;
  SmallVector<ReassociationIndices> getGroups(const Lettered &tensor) const;
  /// Returns a view of `value`, whose letters are `tensor`'s, with the split
  /// dimensions.
  Value expand(OpBuilder &builder, Value value, const Lettered &tensor) const;

private:
  struct Parts {
    std::string letters;
    SmallVector<int64_t> sizes;
  };
  std::string used;
  std::map<char, Parts> partsOf;
};

/// The tensors of a product.
struct Product {
  explicit Product(ContractOp op);
  void apply(const Splits &splits);
  ContractionAttr getContraction() const;
  /// Returns the dimensions of the result that the bias runs along, or nullopt
  /// if the bias has these dimensions in another order.
  std::optional<SmallVector<int64_t>> getBiasAlong() const;
  std::optional<ProductLayout> getLayout() const;

  Lettered operands[2], result;
  std::optional<Lettered> bias;
};

} // namespace

//===----------------------------------------------------------------------===//
// Letters
//===----------------------------------------------------------------------===//

LogicalResult Splits::add(const Lettered &whole, RankedTensorType parts,
                          ArrayRef<ReassociationIndices> groups) {
  for (auto [letter, group] : llvm::zip(whole.letters, groups)) {
    if (group.size() == 1)
      continue;
    Parts &split = partsOf[letter];
    for (int64_t dim : group) {
      size_t unused = 0;
      StringRef all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
      unused = all.find_first_not_of(used);
      if (unused == StringRef::npos)
        return failure();
      used += all[unused];
      split.letters += all[unused];
      split.sizes.push_back(parts.getDimSize(dim));
    }
  }
  return success();
}

Lettered Splits::apply(const Lettered &tensor) const {
  std::string letters;
  SmallVector<int64_t> shape;
  for (auto [letter, size] :
       llvm::zip(tensor.letters, tensor.type.getShape())) {
    auto parts = partsOf.find(letter);
    if (parts == partsOf.end()) {
      letters += letter;
      shape.push_back(size);
      continue;
    }
    letters += parts->second.letters;
    llvm::append_range(shape, parts->second.sizes);
  }
  return {tensor.type.clone(shape), letters};
}

SmallVector<ReassociationIndices>
Splits::getGroups(const Lettered &tensor) const {
  SmallVector<ReassociationIndices> groups;
  int64_t next = 0;
  for (char letter : tensor.letters) {
    auto parts = partsOf.find(letter);
    size_t count = parts == partsOf.end() ? 1 : parts->second.letters.size();
    groups.emplace_back();
    for (size_t i = 0; i < count; ++i)
      groups.back().push_back(next++);
  }
  return groups;
}

Value Splits::expand(OpBuilder &builder, Value value,
                     const Lettered &tensor) const {
  Lettered parts = apply(tensor);
  if (parts.letters == tensor.letters)
    return value;
  return builder.create<tensor::ExpandShapeOp>(value.getLoc(), parts.type,
                                               value, getGroups(tensor));
}

Product::Product(ContractOp op) {
  ContractionAttr contraction = op.getContraction();
  operands[0] = {op.getLhs().getType(), contraction.getLhs().str()};
  operands[1] = {op.getRhs().getType(), contraction.getRhs().str()};
  result = {op.getType(), contraction.getResult().str()};
  if (!op.getBias())
    return;
  bias = {op.getBias().getType(), ""};
  for (int64_t dim : op.getBiasAlongAttr().asArrayRef())
    bias->letters += result.letters[dim];
}

void Product::apply(const Splits &splits) {
  for (Lettered &operand : operands)
    operand = splits.apply(operand);
  result = splits.apply(result);
  if (bias)
    bias = splits.apply(*bias);
}

ContractionAttr Product::getContraction() const {
  MLIRContext *context = result.type.getContext();
  return ContractionAttr::get(context,
                              StringAttr::get(context, operands[0].letters),
                              StringAttr::get(context, operands[1].letters),
                              StringAttr::get(context, result.letters));
}

std::optional<SmallVector<int64_t>> Product::getBiasAlong() const {
  SmallVector<int64_t> along;
  if (bias)
    for (char letter : bias->letters)
      along.push_back(result.letters.find(letter));
  if (!llvm::is_sorted(along))
    return std::nullopt;
  return along;
}

std::optional<ProductLayout> Product::getLayout() const {
  std::optional<SmallVector<int64_t>> along = getBiasAlong();
  if (!along)
    return std::nullopt;
  std::string why;
  std::optional<ArrayRef<int64_t>> biasAlong;
  if (bias)
    biasAlong = *along;
  return getProductLayout(getContraction(), operands[0].type, operands[1].type,
                          result.type, biasAlong, why);
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Returns the bytes that are read and written when parts of a sum are added up
/// in the result.
static int64_t getBytesOfSums(const Product &product,
                              const ProductLayout &layout) {
  int64_t sums = 1;
  for (const ProductLayout::Loop &loop : layout.loops)
    if (loop.c == 0)
      sums *= loop.extent;
  return (sums - 1) * 2 * getBytes(product.result.type);
}

/// Returns whether the rewritten product costs less than the product and a copy
/// of `bytesCopied` bytes: its matrices are not much smaller, and it reads and
/// writes the result only a few times.
static bool isWorth(const Product &product, const Product &rewritten,
                    int64_t bytesCopied) {
  constexpr int64_t kEnough = 32;
  std::optional<ProductLayout> before = product.getLayout();
  std::optional<ProductLayout> after = rewritten.getLayout();
  if (!before || !after)
    return false;
  for (auto extent : {&ProductLayout::m, &ProductLayout::n, &ProductLayout::k})
    if ((*after).*extent < std::min((*before).*extent, kEnough))
      return false;
  return getBytesOfSums(rewritten, *after) - getBytesOfSums(product, *before) <
         2 * bytesCopied;
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {

/// A product, and the product that reads or writes a packed tensor in its
/// place.
struct Rewrite {
  explicit Rewrite(ContractOp op) : op(op), splits(op), before(op), after(op) {}

  /// Splits letters of `tensor` as a reshape to `parts` splits dimensions.
  /// Fails if the alphabet has too few letters.
  LogicalResult split(const Lettered &tensor, RankedTensorType parts,
                      ArrayRef<ReassociationIndices> groups) {
    if (failed(splits.add(tensor, parts, groups)))
      return failure();
    after.apply(splits);
    return success();
  }
  Value expand(OpBuilder &builder, unsigned operand) {
    return splits.expand(builder, op->getOperand(operand),
                         before.operands[operand]);
  }
  /// Builds the new product. `accumulate` has the type of its result.
  Value create(OpBuilder &builder, Value lhs, Value rhs, Value accumulate) {
    Value bias;
    DenseI64ArrayAttr along;
    if (op.getBias()) {
      bias = splits.expand(builder, op.getBias(), *before.bias);
      along = builder.getDenseI64ArrayAttr(*after.getBiasAlong());
    }
    return builder.create<ContractOp>(
        op.getLoc(), after.result.type, lhs, rhs, bias, accumulate,
        after.getContraction(), along, op.getPassAttr(), op.getOpNameAttr());
  }

  ContractOp op;
  Splits splits;
  Product before, after;
};

/// Lets a product read a packed tensor.
struct ReadPacked : OpRewritePattern<ContractOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ContractOp op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {0, 1}) {
      // If another op reads the copy, it is made anyway.
      if (!llvm::all_of(op->getOperand(i).getUses(),
                        [](OpOperand &use) { return read(use).has_value(); }))
        continue;
      Rewrite product = *read(op->getOpOperand(i));
      Value operands[2], accumulate = op.getAccumulate();
      operands[i] = findTranspose(op->getOperand(i)).getInput();
      operands[1 - i] = product.expand(rewriter, 1 - i);
      if (accumulate)
        accumulate =
            product.splits.expand(rewriter, accumulate, product.before.result);
      Value result =
          product.create(rewriter, operands[0], operands[1], accumulate);
      if (result.getType() != op.getType())
        result = rewriter.create<tensor::CollapseShapeOp>(
            op.getLoc(), op.getType(), result,
            product.splits.getGroups(product.before.result));
      rewriter.replaceOp(op, result);
      return success();
    }
    return failure();
  }

private:
  /// Returns the transposition that makes a value. A reshape that merges
  /// dimensions may follow it.
  static linalg::TransposeOp findTranspose(Value value) {
    if (auto merge = value.getDefiningOp<tensor::CollapseShapeOp>())
      value = merge.getSrc();
    return value.getDefiningOp<linalg::TransposeOp>();
  }

  /// Returns the product that reads the packed tensor behind an operand, or
  /// nullopt if there is none or it costs more.
  static std::optional<Rewrite> read(OpOperand &use) {
    linalg::TransposeOp transpose = findTranspose(use.get());
    auto op = dyn_cast<ContractOp>(use.getOwner());
    unsigned number = use.getOperandNumber();
    if (!transpose || !op || number > 1)
      return std::nullopt;
    Rewrite product(op);
    if (auto merge = use.get().getDefiningOp<tensor::CollapseShapeOp>())
      if (failed(product.split(product.before.operands[number],
                               merge.getSrcType(),
                               merge.getReassociationIndices())))
        return std::nullopt;
    Lettered &operand = product.after.operands[number];
    std::string letters = operand.letters;
    for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
      operand.letters[from] = letters[to];
    operand.type = cast<RankedTensorType>(transpose.getInput().getType());
    if (!isWorth(product.before, product.after, getBytes(operand.type)))
      return std::nullopt;
    return product;
  }
};

/// Lets a product write a packed tensor.
struct WritePacked : OpRewritePattern<linalg::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::TransposeOp transpose,
                                PatternRewriter &rewriter) const override {
    Value value = transpose.getInput();
    auto split = value.getDefiningOp<tensor::ExpandShapeOp>();
    if (split && value.hasOneUse())
      value = split.getSrc();
    auto op = value.getDefiningOp<ContractOp>();
    if (!op || !value.hasOneUse() || op->getBlock() != transpose->getBlock())
      return failure();
    // Packs the accumulated tensor first. If another product computes this
    // tensor, that product writes it packed, and no copy remains.
    Value accumulate = op.getAccumulate();
    if (accumulate &&
        (!accumulate.getDefiningOp<ContractOp>() || !accumulate.hasOneUse()))
      return failure();

    Rewrite product(op);
    if (split &&
        failed(product.split(product.before.result, split.getResultType(),
                             split.getReassociationIndices())))
      return failure();
    Lettered &result = product.after.result;
    std::string letters = result.letters;
    for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
      result.letters[to] = letters[from];
    result.type = cast<RankedTensorType>(transpose.getInit().getType());
    if (!isWorth(product.before, product.after, getBytes(result.type)))
      return failure();

    rewriter.setInsertionPoint(op);
    if (accumulate) {
      Value parts =
          product.splits.expand(rewriter, accumulate, product.before.result);
      Value init = rewriter.create<tensor::EmptyOp>(
          op.getLoc(), result.type.getShape(), result.type.getElementType());
      accumulate = rewriter
                       .create<linalg::TransposeOp>(op.getLoc(), parts, init,
                                                    transpose.getPermutation())
                       ->getResult(0);
    }
    rewriter.replaceOp(transpose,
                       product.create(rewriter, product.expand(rewriter, 0),
                                      product.expand(rewriter, 1), accumulate));
    if (split)
      rewriter.eraseOp(split);
    rewriter.eraseOp(op);
    return success();
  }
};

struct FusePacking : heddle::impl::FusePackingPassBase<FusePacking> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ReadPacked, WritePacked>(&getContext());
    if (failed(applyInProgramOrder(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
