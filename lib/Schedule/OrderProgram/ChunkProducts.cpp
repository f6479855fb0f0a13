//===- ChunkProducts.cpp - Products in row chunks -------------------------===//

#include "ChunkProducts.h"
#include "../RowChunks.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Schedule/Passes.h"

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
      product->getBlock() != sum->getBlock())
    return std::nullopt;
  std::optional<unsigned> rows = getRowOperand(product, chunks);
  return rows ? std::optional(Pair{product, sum, *rows}) : std::nullopt;
}

static void chunk(const Pair &pair, int64_t chunks) {
  ContractOp product = pair.product;
  comm::AllReduceOp sum = pair.sum;
  OpBuilder builder(sum);
  SmallVector<Value> sums;
  if (auto seconds = product->getAttrOfType<FloatAttr>(kSecondsAttrName))
    product->setAttr(
        kSecondsAttrName,
        builder.getF64FloatAttr(seconds.getValueAsDouble() / double(chunks)));
  for (int64_t i = 0; i < chunks; ++i) {
    Value rows = getRows(builder, product.getLoc(),
                         product->getOperand(pair.rows), chunks, i);
    Operation *part = cloneForRows(builder, product, pair.rows, rows, chunks);
    sums.push_back(cloneForRows(builder, sum, 0, part->getResult(0), chunks)
                       ->getResult(0));
  }
  sum.getResult().replaceAllUsesWith(joinRows(builder, sum.getLoc(), sums));
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
