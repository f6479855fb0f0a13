//===- ScalarTensors.cpp - Tensors that represent scalars -----------------===//

#include "ScalarTensors.h"
#include "../DecomposeOps/Decomposer.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

RankedTensorType lower::getProgramType(Type type) {
  if (type.isIndex())
    type = IntegerType::get(type.getContext(), 64);
  if (type.isIntOrFloat())
    return RankedTensorType::get({}, type);
  return dyn_cast<RankedTensorType>(type);
}

Value lower::toProgramTensor(OpBuilder &builder, Location loc, Value value) {
  if (isa<TensorType>(value.getType()))
    return value;
  RankedTensorType type = getProgramType(value.getType());
  if (TypedAttr constant; matchPattern(value, m_Constant(&constant))) {
    Attribute element = constant;
    if (auto index = dyn_cast<IntegerAttr>(constant))
      element = builder.getIntegerAttr(type.getElementType(),
                                       index.getValue().getSExtValue());
    return builder.create<arith::ConstantOp>(
        loc, DenseElementsAttr::get(type, ArrayRef<Attribute>(element)));
  }
  if (value.getType().isIndex())
    value =
        builder.create<arith::IndexCastOp>(loc, type.getElementType(), value);
  return builder.create<tensor::FromElementsOp>(loc, type, value);
}

Value lower::fromProgramTensor(OpBuilder &builder, Location loc, Value tensor,
                               Type type) {
  if (isa<TensorType>(type))
    return tensor;
  Value number = builder.create<tensor::ExtractOp>(loc, tensor, ValueRange());
  if (type.isIndex())
    number = builder.create<arith::IndexCastOp>(loc, type, number);
  return number;
}

/// Returns whether the op, applied to tensors, acts on each element separately.
static bool isMappable(Operation *op) {
  return OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1;
}

/// Returns the scalar operands of an op that computes a scalar.
static ValueRange getScalarOperands(Operation *op) {
  if (isMappable(op))
    return op->getOperands();
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    return extract.getIndices();
  return {};
}

/// Builds an op that reads a tensor's element at computed indices.
static Value readElement(tensor::ExtractOp op, ValueRange places) {
  OpBuilder builder(op);
  Decomposer d(builder, op.getLoc());
  SmallVector<Operand> operands;
  for (Value place : places)
    operands.push_back({place, d.identity(0)});
  return d.map(RankedTensorType::get({}, op.getType()), operands,
               [&](Body &b, ValueRange arguments) -> Value {
                 SmallVector<Value> indices;
                 for (Value argument : arguments)
                   indices.push_back(b.toInteger(argument, b.getIndexType()));
                 return b.create<tensor::ExtractOp>(op.getTensor(), indices);
               });
}

Value ScalarTensors::makeExtract(tensor::ExtractOp op) {
  Value tensor = op.getTensor();
  auto source = cast<RankedTensorType>(tensor.getType());
  if (source.getRank() == 0)
    return tensor;
  SmallVector<OpFoldResult> offsets;
  SmallVector<Value> places;
  OpBuilder builder(op);
  for (Value index : op.getIndices()) {
    if (std::optional<int64_t> constant = getConstantIntValue(index))
      offsets.push_back(builder.getIndexAttr(*constant));
    places.push_back(lookup(index));
    if (!places.back())
      return {};
  }
  if (offsets.size() < places.size())
    return readElement(op, places);
  SmallVector<OpFoldResult> ones(source.getRank(), builder.getIndexAttr(1));
  return builder.create<tensor::ExtractSliceOp>(
      op.getLoc(), RankedTensorType::get({}, op.getType()), tensor, offsets,
      ones, ones);
}

/// Casts between i64, which represents an index, and other integers.
static Value makeCast(OpBuilder &builder, Location loc, Value from,
                      RankedTensorType type, bool isSigned) {
  unsigned have = cast<RankedTensorType>(from.getType())
                      .getElementType()
                      .getIntOrFloatBitWidth();
  unsigned want = type.getElementType().getIntOrFloatBitWidth();
  if (have == want)
    return from;
  if (have > want)
    return builder.create<arith::TruncIOp>(loc, type, from);
  if (isSigned)
    return builder.create<arith::ExtSIOp>(loc, type, from);
  return builder.create<arith::ExtUIOp>(loc, type, from);
}

Value ScalarTensors::make(Operation *op, Type element) {
  RankedTensorType type = getProgramType(element);
  if (!type)
    return {};
  OpBuilder builder(op);
  Location loc = op->getLoc();
  if (isa<arith::ConstantOp>(op))
    return toProgramTensor(builder, loc, op->getResult(0));
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    return makeExtract(extract);
  if (!isMappable(op))
    return {};
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Value tensor = lookup(operand);
    if (!tensor)
      return {};
    operands.push_back(tensor);
  }
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return makeCast(builder, loc, operands[0], type,
                    isa<arith::IndexCastOp>(op));
  Operation *mapped = builder.clone(*op);
  mapped->setOperands(operands);
  mapped->getResult(0).setType(type);
  return mapped->getResult(0);
}

Value ScalarTensors::lookup(Value scalar) const {
  return isa<RankedTensorType>(scalar.getType()) ? scalar
                                                 : tensors.lookup(scalar);
}

Operation *ScalarTensors::findUnknown(Value scalar) const {
  Operation *op = scalar.getDefiningOp();
  while (op) {
    Operation *before = nullptr;
    for (Value operand : getScalarOperands(op))
      if (!lookup(operand))
        before = operand.getDefiningOp();
    if (!before)
      return op;
    op = before;
  }
  return nullptr;
}

Value ScalarTensors::get(Value scalar) {
  // Visits operands first, with an explicit stack, because unrolled loops make
  // chains too long for recursion.
  auto isOpen = [&](Value value) {
    return !isa<RankedTensorType>(value.getType()) && !tensors.contains(value);
  };
  SmallVector<Value> open = {scalar};
  while (!open.empty()) {
    Value next = open.back();
    Operation *op = next.getDefiningOp();
    size_t size = open.size();
    if (op && isOpen(next))
      llvm::copy_if(getScalarOperands(op), std::back_inserter(open), isOpen);
    if (open.size() != size)
      continue;
    open.pop_back();
    if (isOpen(next))
      tensors[next] = op ? make(op, next.getType()) : Value();
  }
  return lookup(scalar);
}
