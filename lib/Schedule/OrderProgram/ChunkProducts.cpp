//===- ChunkProducts.cpp - Products in row chunks -------------------------===//

#include "ChunkProducts.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {
/// A product and the all-reduce that alone reads it.
struct Pair {
  ContractOp product;
  comm::AllReduceOp sum;
  unsigned rows; ///< the operand whose outermost dimension is the result's
};
} // namespace

static std::optional<Pair> getPair(comm::AllReduceOp sum, int64_t chunks) {
  auto product = sum.getInput().getDefiningOp<ContractOp>();
  if (!product || !product.getResult().hasOneUse() ||
      product->getBlock() != sum->getBlock() || product.getAccumulate())
    return std::nullopt;
  auto type = cast<RankedTensorType>(product.getType());
  if (type.getRank() == 0 || type.getDimSize(0) < chunks ||
      type.getDimSize(0) % chunks != 0)
    return std::nullopt;
  if (auto along = product.getBiasAlong();
      along && llvm::is_contained(*along, int64_t(0)))
    return std::nullopt;
  ContractionAttr letters = product.getContraction();
  StringRef lhs = letters.getLhs().getValue(),
            rhs = letters.getRhs().getValue();
  char outer = letters.getResult().getValue().front();
  bool inLhs = lhs.contains(outer), inRhs = rhs.contains(outer);
  if (inLhs == inRhs || (inLhs ? lhs : rhs).front() != outer)
    return std::nullopt;
  return Pair{product, sum, inLhs ? 0u : 1u};
}

static RankedTensorType getChunkType(RankedTensorType type, int64_t chunks) {
  SmallVector<int64_t> shape(type.getShape());
  shape.front() /= chunks;
  return type.clone(shape);
}

/// Returns rows of a tensor, along its outermost dimension.
static Value getRows(OpBuilder &builder, Location loc, Value whole,
                     int64_t chunks, int64_t chunk) {
  auto type = cast<RankedTensorType>(whole.getType());
  RankedTensorType part = getChunkType(type, chunks);
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0)),
      strides(type.getRank(), builder.getIndexAttr(1)), sizes;
  offsets.front() = builder.getIndexAttr(chunk * part.getDimSize(0));
  for (int64_t size : part.getShape())
    sizes.push_back(builder.getIndexAttr(size));
  return builder.create<tensor::ExtractSliceOp>(loc, part, whole, offsets,
                                                sizes, strides);
}

static void chunk(const Pair &pair, int64_t chunks) {
  ContractOp product = pair.product;
  comm::AllReduceOp sum = pair.sum;
  OpBuilder builder(sum);
  Location loc = sum.getLoc();
  auto type = cast<RankedTensorType>(sum.getType());
  RankedTensorType part = getChunkType(type, chunks);
  SmallVector<Value> sums;
  for (int64_t i = 0; i < chunks; ++i) {
    Value operand = getRows(builder, product.getLoc(),
                            product->getOperand(pair.rows), chunks, i);
    Operation *rows = builder.clone(*product);
    rows->setOperand(pair.rows, operand);
    rows->getResult(0).setType(
        getChunkType(cast<RankedTensorType>(product.getType()), chunks));
    IRMapping ofSum;
    ofSum.map(sum.getInput(), rows->getResult(0));
    Operation *rowsSum = builder.clone(*sum, ofSum);
    rowsSum->getResult(0).setType(part);
    sums.push_back(rowsSum->getResult(0));
  }
  SmallVector<int64_t> shape(part.getShape());
  shape.insert(shape.begin(), chunks);
  auto stack = builder.create<StackOp>(loc, type.clone(shape), sums,
                                       /*op_name=*/StringAttr());
  SmallVector<ReassociationIndices> groups = {{0, 1}};
  for (int64_t dim = 2; dim <= type.getRank(); ++dim)
    groups.push_back({dim});
  Value whole =
      builder.create<tensor::CollapseShapeOp>(loc, type, stack, groups);
  sum.getResult().replaceAllUsesWith(whole);
  sum->erase();
  product->erase();
}

int64_t heddle::chunkProducts(Block &block, int64_t chunks) {
  SmallVector<Pair> pairs;
  for (auto sum : block.getOps<comm::AllReduceOp>())
    if (std::optional<Pair> pair = getPair(sum, chunks))
      pairs.push_back(*pair);
  for (const Pair &pair : pairs)
    chunk(pair, chunks);
  return pairs.size();
}
