//===- RowChunks.cpp - Chunks along the outermost dimension ---------------===//

#include "RowChunks.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

/// Returns the type of one of `chunks` equal parts along the outermost
/// dimension.
static RankedTensorType getChunkType(Value whole, int64_t chunks) {
  auto type = cast<RankedTensorType>(whole.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.front() /= chunks;
  return type.clone(shape);
}

Value heddle::getRows(OpBuilder &builder, Location loc, Value whole,
                      int64_t chunks, int64_t chunk) {
  RankedTensorType part = getChunkType(whole, chunks);
  SmallVector<OpFoldResult> offsets(part.getRank(), builder.getIndexAttr(0)),
      strides(part.getRank(), builder.getIndexAttr(1)), sizes;
  offsets.front() = builder.getIndexAttr(chunk * part.getDimSize(0));
  for (int64_t size : part.getShape())
    sizes.push_back(builder.getIndexAttr(size));
  return builder.create<tensor::ExtractSliceOp>(loc, part, whole, offsets,
                                                sizes, strides);
}

Value heddle::joinRows(OpBuilder &builder, Location loc, ValueRange rows) {
  auto part = cast<RankedTensorType>(rows.front().getType());
  SmallVector<int64_t> shape(part.getShape());
  shape.insert(shape.begin(), rows.size());
  auto stack = builder.create<StackOp>(loc, part.clone(shape), rows,
                                       /*op_name=*/StringAttr());
  SmallVector<ReassociationIndices> groups = {{0, 1}};
  for (int64_t dim = 2; dim <= part.getRank(); ++dim)
    groups.push_back({dim});
  shape.erase(shape.begin());
  shape.front() *= rows.size();
  return builder.create<tensor::CollapseShapeOp>(loc, part.clone(shape), stack,
                                                 groups);
}

std::optional<unsigned> heddle::getRowOperand(ContractOp product,
                                              int64_t chunks) {
  auto type = cast<RankedTensorType>(product.getType());
  if (product.getAccumulate() || type.getRank() == 0 ||
      type.getDimSize(0) < chunks || type.getDimSize(0) % chunks != 0)
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
  return inLhs ? 0 : 1;
}

Operation *heddle::cloneForRows(OpBuilder &builder, Operation *op,
                                unsigned operand, Value rows, int64_t chunks) {
  Operation *clone = builder.clone(*op);
  clone->setOperand(operand, rows);
  for (OpResult result : clone->getResults())
    result.setType(getChunkType(result, chunks));
  return clone;
}
