//===- Dimensions.cpp - Dimensions split and merged -----------------------===//

#include "Dimensions.h"
#include "../Rules/ZeroRows.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

RankedTensorType heddle::withSize(RankedTensorType type, int64_t dim,
                                  int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return type.clone(shape);
}

/// Returns the reassociation of a reshape to rank `rank`: dimension `dim`
/// merges `count` dimensions of the larger tensor, every other dimension merges
/// one.
static SmallVector<ReassociationIndices> groupsOf(int64_t rank, int64_t dim,
                                                  int64_t count) {
  SmallVector<ReassociationIndices> groups;
  int64_t next = 0;
  for (int64_t i = 0; i < rank; ++i) {
    groups.emplace_back();
    for (int64_t k = 0; k < (i == dim ? count : 1); ++k)
      groups.back().push_back(next++);
  }
  return groups;
}

Value heddle::splitDimension(OpBuilder &builder, Location loc, Value value,
                             int64_t dim, ArrayRef<int64_t> sizes) {
  if (sizes.size() == 1)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape().take_front(dim));
  llvm::append_range(shape, sizes);
  llvm::append_range(shape, type.getShape().drop_front(dim + 1));
  return builder.create<tensor::ExpandShapeOp>(
      loc, type.clone(shape), value,
      groupsOf(type.getRank(), dim, sizes.size()));
}

Value heddle::mergeDimensions(OpBuilder &builder, Location loc, Value value,
                              int64_t dim, int64_t count) {
  if (count == 1)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape().take_front(dim));
  shape.push_back(1);
  for (int64_t size : type.getShape().slice(dim, count))
    shape.back() *= size;
  llvm::append_range(shape, type.getShape().drop_front(dim + count));
  return builder.create<tensor::CollapseShapeOp>(
      loc, type.clone(shape), value,
      groupsOf(type.getRank() - count + 1, dim, count));
}

Value heddle::moveDimension(OpBuilder &builder, Location loc, Value value,
                            int64_t from, int64_t to) {
  if (from == to)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  SmallVector<int64_t> shape = llvm::map_to_vector(
      order, [&](int64_t dim) { return type.getDimSize(dim); });

  int64_t first = std::min(from, to), count = std::abs(from - to) + 1;
  int64_t larger = llvm::count_if(type.getShape().slice(first, count),
                                  [](int64_t size) { return size != 1; });
  if (larger <= 1 || type.getDimSize(from) == 1)
    return splitDimension(builder, loc,
                          mergeDimensions(builder, loc, value, first, count),
                          first, ArrayRef(shape).slice(first, count));
  Value init =
      builder.create<tensor::EmptyOp>(loc, shape, type.getElementType());
  return builder.create<linalg::TransposeOp>(loc, value, init, order)
      ->getResult(0);
}

Value heddle::padEnd(OpBuilder &builder, Location loc, Value value, int64_t dim,
                     int64_t size) {
  auto type = cast<RankedTensorType>(value.getType());
  bool isAtEnd = llvm::all_of(type.getShape().take_front(dim),
                              [](int64_t before) { return before == 1; });
  if (!isAtEnd || type.getDimSize(dim) == size)
    return padRows(builder, loc, value, dim, size);
  SmallVector<int64_t> missing(type.getShape());
  missing[dim] = size - type.getDimSize(dim);
  Value zeros = makeZeros(builder, loc, type.clone(missing));
  return builder.create<tensor::ConcatOp>(loc, dim, ValueRange{value, zeros});
}
