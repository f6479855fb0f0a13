//===- ExchangeTogether.cpp - One collective for several tensors ----------===//

#include "ExchangeTogether.h"
#include "Dimensions.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Support/Rows.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {
class Joiner {
public:
  Joiner(OpBuilder &builder, Location loc, int64_t members)
      : builder(builder), loc(loc), members(members) {}

  SmallVector<Value> join(MutableArrayRef<comm::AllReduceOp> ops);
  SmallVector<Value> join(MutableArrayRef<comm::ReduceScatterOp> ops);
  SmallVector<Value> join(MutableArrayRef<comm::AllGatherOp> ops);

private:
  /// Returns the elements as one dimension, behind the first `kept` ones.
  Value flatten(Value value, int64_t kept = 0);
  /// Reverses `flatten`.
  Value unflatten(Value flat, ArrayRef<int64_t> shape, int64_t kept = 0);
  Value concat(ValueRange parts, int64_t dim) {
    if (parts.size() == 1)
      return parts.front();
    return builder.create<tensor::ConcatOp>(loc, dim, parts);
  }
  /// Cuts the tensor into parts of these sizes along a dimension.
  SmallVector<Value> cut(Value whole, int64_t dim, ArrayRef<int64_t> sizes);
  SmallVector<Value> stackAndReduce(MutableArrayRef<comm::AllReduceOp> ops);

  OpBuilder &builder;
  Location loc;
  int64_t members;
};
} // namespace

Value Joiner::flatten(Value value, int64_t kept) {
  int64_t rank = getType(value).getRank();
  if (rank > kept)
    return mergeDimensions(builder, loc, value, kept, rank - kept);
  // A number.
  return builder.create<StackOp>(
      loc, RankedTensorType::get({1}, getType(value).getElementType()), value,
      StringAttr());
}

Value Joiner::unflatten(Value flat, ArrayRef<int64_t> shape, int64_t kept) {
  if (!shape.empty())
    return splitDimension(builder, loc, flat, kept, shape);
  Type number = RankedTensorType::get({}, getType(flat).getElementType());
  return builder.create<UnstackOp>(loc, number, flat, StringAttr())
      .getSlices()
      .front();
}

SmallVector<Value> Joiner::cut(Value whole, int64_t dim,
                               ArrayRef<int64_t> sizes) {
  SmallVector<Value> parts;
  int64_t offset = 0;
  for (int64_t size : sizes) {
    parts.push_back(sizes.size() == 1
                        ? whole
                        : extractRows(builder, loc, whole, dim,
                                      builder.getIndexAttr(offset), size));
    offset += size;
  }
  return parts;
}

SmallVector<Value>
Joiner::stackAndReduce(MutableArrayRef<comm::AllReduceOp> ops) {
  comm::AllReduceOp last = ops.back();
  SmallVector<Value> inputs;
  for (comm::AllReduceOp op : ops)
    inputs.push_back(op.getInput());
  auto reduce = [&](Value value) {
    return builder.create<comm::AllReduceOp>(loc, value.getType(), value,
                                             last.getMesh(), last.getAxes(),
                                             last.getKind());
  };
  if (inputs.size() == 1)
    return {reduce(inputs.front())};
  SmallVector<int64_t> shape = {(int64_t)inputs.size()};
  llvm::append_range(shape, last.getType().getShape());
  Value all = reduce(builder.create<StackOp>(loc, last.getType().clone(shape),
                                             inputs, StringAttr()));
  SmallVector<Type> types(inputs.size(), last.getType());
  return llvm::to_vector_of<Value>(
      builder.create<UnstackOp>(loc, types, all, StringAttr()).getSlices());
}

SmallVector<Value> Joiner::join(MutableArrayRef<comm::AllReduceOp> ops) {
  if (llvm::all_of(ops, [&](comm::AllReduceOp op) {
        return op.getType() == ops.front().getType();
      }))
    return stackAndReduce(ops);
  SmallVector<Value> inputs;
  SmallVector<int64_t> sizes;
  for (comm::AllReduceOp op : ops) {
    inputs.push_back(flatten(op.getInput()));
    sizes.push_back(op.getType().getNumElements());
  }
  comm::AllReduceOp last = ops.back();
  Value joined = concat(inputs, 0);
  Value all = builder.create<comm::AllReduceOp>(loc, joined.getType(), joined,
                                                last.getMesh(), last.getAxes(),
                                                last.getKind());
  SmallVector<Value> results = cut(all, 0, sizes);
  for (auto [result, op] : llvm::zip(results, ops))
    result = unflatten(result, op.getType().getShape());
  return results;
}

SmallVector<Value> Joiner::join(MutableArrayRef<comm::ReduceScatterOp> ops) {
  SmallVector<Value> rows; // [P, elements of a part]
  SmallVector<int64_t> sizes;
  for (comm::ReduceScatterOp op : ops) {
    int64_t dim = op.getDim(), part = op.getType().getDimSize(dim);
    Value value = padEnd(builder, loc, op.getInput(), dim, members * part);
    value = splitDimension(builder, loc, value, dim, {members, part});
    rows.push_back(flatten(moveDimension(builder, loc, value, dim, 0), 1));
    sizes.push_back(op.getType().getNumElements());
  }
  comm::ReduceScatterOp last = ops.back();
  Value joined = concat(rows, 1);
  int64_t count = getType(joined).getDimSize(1);
  Value mine = builder.create<comm::ReduceScatterOp>(
      loc, getType(joined).clone(ArrayRef(count)),
      mergeDimensions(builder, loc, joined, 0, 2), last.getMeshAttr(),
      last.getAxesAttr(), last.getKindAttr(), builder.getI64IntegerAttr(0));
  SmallVector<Value> results = cut(mine, 0, sizes);
  for (auto [result, op] : llvm::zip(results, ops))
    result = unflatten(result, op.getType().getShape());
  return results;
}

SmallVector<Value> Joiner::join(MutableArrayRef<comm::AllGatherOp> ops) {
  SmallVector<Value> inputs;
  SmallVector<int64_t> sizes;
  for (comm::AllGatherOp op : ops) {
    inputs.push_back(flatten(op.getInput()));
    sizes.push_back(getType(op.getInput()).getNumElements());
  }
  comm::AllGatherOp last = ops.back();
  Value joined = concat(inputs, 0);
  int64_t count = getType(joined).getDimSize(0);
  Value all = builder.create<comm::AllGatherOp>(
      loc, getType(joined).clone(ArrayRef(members * count)), joined,
      last.getMeshAttr(), last.getAxesAttr(), builder.getI64IntegerAttr(0));
  all = splitDimension(builder, loc, all, 0, {members, count});
  SmallVector<Value> results = cut(all, 1, sizes); // [P, elements of a part]
  for (auto [result, op] : llvm::zip(results, ops)) {
    int64_t dim = op.getDim(), size = op.getType().getDimSize(dim);
    result = unflatten(result, getType(op.getInput()).getShape(), 1);
    result = moveDimension(builder, loc, result, 0, dim);
    result = mergeDimensions(builder, loc, result, dim, 2);
    if (getType(result).getDimSize(dim) != size)
      result =
          extractRows(builder, loc, result, dim, builder.getIndexAttr(0), size);
  }
  return results;
}

template <typename OpTy>
static SmallVector<Value> joinAs(OpBuilder &builder,
                                 ArrayRef<Operation *> collectives) {
  auto first = cast<OpTy>(collectives.front());
  int64_t members = lookupMesh(first, first.getMeshAttr())
                        .getMesh()
                        .getSize(first.getAxes().getAxes());
  // Gathers with equal keys are the same collective of the same tensor.
  auto getKey = [](Operation *op) {
    return std::tuple(op->getOperand(0), op->getAttr("dim"),
                      op->getResult(0).getType());
  };
  llvm::MapVector<std::tuple<Value, Attribute, Type>, OpTy> different;
  for (Operation *op : collectives)
    different.try_emplace(getKey(op), cast<OpTy>(op));
  SmallVector<OpTy> ops;
  for (auto &[key, op] : different)
    ops.push_back(op);
  Joiner joiner(builder, collectives.back()->getLoc(), members);
  SmallVector<Value> joined = joiner.join(MutableArrayRef<OpTy>(ops)), results;
  for (Operation *op : collectives)
    results.push_back(
        joined[std::distance(different.begin(), different.find(getKey(op)))]);
  return results;
}

SmallVector<Value> heddle::exchangeTogether(OpBuilder &builder,
                                            ArrayRef<Operation *> collectives) {
  return llvm::TypeSwitch<Operation *, SmallVector<Value>>(collectives.front())
      .Case([&](comm::AllReduceOp) {
        return joinAs<comm::AllReduceOp>(builder, collectives);
      })
      .Case([&](comm::ReduceScatterOp) {
        return joinAs<comm::ReduceScatterOp>(builder, collectives);
      })
      .Case([&](comm::AllGatherOp) {
        return joinAs<comm::AllGatherOp>(builder, collectives);
      });
}
