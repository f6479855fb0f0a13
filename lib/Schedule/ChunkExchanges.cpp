//===- ChunkExchanges.cpp - heddle-chunk-exchanges ------------------------===//

#include "RowChunks.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Schedule/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_CHUNKEXCHANGESPASS
#include "heddle/Schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Cuts a product whose only reader is `scatter`, and cuts `scatter` into the
/// same chunks of rows.
static void chunkScatter(comm::ReduceScatterOp scatter, int64_t chunks) {
  auto product = scatter.getInput().getDefiningOp<ContractOp>();
  if (scatter.getDim() == 0 || !product || !product.getResult().hasOneUse() ||
      product->getBlock() != scatter->getBlock())
    return;
  std::optional<unsigned> operand = getRowOperand(product, chunks);
  if (!operand)
    return;
  OpBuilder builder(scatter);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < chunks; ++i) {
    Value rows = getRows(builder, product.getLoc(),
                         product->getOperand(*operand), chunks, i);
    Operation *part = cloneForRows(builder, product, *operand, rows, chunks);
    parts.push_back(
        cloneForRows(builder, scatter, 0, part->getResult(0), chunks)
            ->getResult(0));
  }
  scatter.getResult().replaceAllUsesWith(
      joinRows(builder, scatter.getLoc(), parts));
  scatter->erase();
  product->erase();
}

/// Cuts an all-gather that products read row by row, and these products.
static void chunkGather(comm::AllGatherOp gather, int64_t chunks) {
  SmallVector<ContractOp> products;
  for (OpOperand &use : gather.getResult().getUses()) {
    auto product = dyn_cast<ContractOp>(use.getOwner());
    if (product && product->getBlock() == gather->getBlock() &&
        getRowOperand(product, chunks) == use.getOperandNumber())
      products.push_back(product);
  }
  if (gather.getDim() == 0 || products.empty())
    return;
  OpBuilder builder(gather);
  SmallVector<Value> gathered;
  for (int64_t i = 0; i < chunks; ++i) {
    Value rows =
        getRows(builder, gather.getLoc(), gather.getInput(), chunks, i);
    gathered.push_back(
        cloneForRows(builder, gather, 0, rows, chunks)->getResult(0));
  }
  for (ContractOp product : products) {
    builder.setInsertionPoint(product);
    unsigned operand = *getRowOperand(product, chunks);
    SmallVector<Value> parts;
    for (Value rows : gathered)
      parts.push_back(
          cloneForRows(builder, product, operand, rows, chunks)->getResult(0));
    product.getResult().replaceAllUsesWith(
        joinRows(builder, product.getLoc(), parts));
    product->erase();
  }
  if (!gather->use_empty()) {
    builder.setInsertionPoint(gather);
    gather.getResult().replaceAllUsesWith(
        joinRows(builder, gather.getLoc(), gathered));
  }
  gather->erase();
}

namespace {
struct ChunkExchanges : heddle::impl::ChunkExchangesPassBase<ChunkExchanges> {
  using Base::Base;

  void runOnOperation() override {
    if (chunks < 2) {
      getOperation().emitError()
          << "expected at least 2 chunks, got " << int64_t(chunks);
      return signalPassFailure();
    }
    for (Block &block : getOperation().getBody()) {
      for (auto scatter :
           llvm::make_early_inc_range(block.getOps<comm::ReduceScatterOp>()))
        chunkScatter(scatter, chunks);
      for (auto gather :
           llvm::make_early_inc_range(block.getOps<comm::AllGatherOp>()))
        chunkGather(gather, chunks);
    }
  }
};
} // namespace
