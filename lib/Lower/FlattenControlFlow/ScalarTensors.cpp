//===- ScalarTensors.cpp - Scalars computed from tensors, as tensors ------===//

#include "ScalarTensors.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

Value ScalarTensors::make(Operation *op, Type element) {
  auto type = RankedTensorType::get({}, element);
  OpBuilder builder(op);
  Location loc = op->getLoc();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return builder.create<arith::ConstantOp>(
        loc,
        DenseElementsAttr::get(type, ArrayRef<Attribute>(constant.getValue())));
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    Value tensor = extract.getTensor();
    auto source = cast<RankedTensorType>(tensor.getType());
    if (source.getRank() == 0)
      return tensor;
    SmallVector<OpFoldResult> offsets,
        ones(source.getRank(), builder.getIndexAttr(1));
    for (Value index : extract.getIndices()) {
      std::optional<int64_t> constant = getConstantIntValue(index);
      if (!constant)
        return {};
      offsets.push_back(builder.getIndexAttr(*constant));
    }
    return builder.create<tensor::ExtractSliceOp>(loc, type, tensor, offsets,
                                                  ones, ones);
  }
  if (!OpTrait::hasElementwiseMappableTraits(op) || op->getNumResults() != 1)
    return {};
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Value tensor = get(operand);
    if (!tensor)
      return {};
    operands.push_back(tensor);
  }
  Operation *mapped = builder.clone(*op);
  mapped->setOperands(operands);
  mapped->getResult(0).setType(type);
  return mapped->getResult(0);
}

Value ScalarTensors::get(Value scalar) {
  if (isa<RankedTensorType>(scalar.getType()))
    return scalar;
  if (Value known = tensors.lookup(scalar))
    return known;
  Operation *op = scalar.getDefiningOp();
  Value tensor = op ? make(op, scalar.getType()) : Value();
  if (tensor)
    tensors[scalar] = tensor;
  return tensor;
}

/// The scalar that an op spreads over its result; null if it does not, or if
/// the scalar is a constant.
static Value getSpreadScalar(Operation *op) {
  Value scalar;
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    if (isa<RankedTensorType>(select.getType()) &&
        !isa<RankedTensorType>(select.getCondition().getType()))
      scalar = select.getCondition();
  } else if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    scalar = splat.getInput();
  } else if (auto fill = dyn_cast<linalg::FillOp>(op)) {
    if (fill->getNumResults() == 1)
      scalar = fill.getInputs()[0];
  } else if (auto elements = dyn_cast<tensor::FromElementsOp>(op)) {
    if (elements.getElements().size() == 1)
      scalar = elements.getElements()[0];
  }
  return scalar && !matchPattern(scalar, m_Constant()) ? scalar : Value();
}

LogicalResult lower::spreadScalars(func::FuncOp function) {
  ScalarTensors tensors;
  SmallVector<Operation *> spreading;
  for (Operation &op : function.getBody().front())
    if (getSpreadScalar(&op))
      spreading.push_back(&op);
  for (Operation *op : spreading) {
    Value scalar = tensors.get(getSpreadScalar(op));
    if (!scalar)
      return op->emitOpError()
             << "cannot be compiled: expected a scalar that is a constant or "
                "computed from tensors";
    OpBuilder builder(op);
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    auto element = cast<RankedTensorType>(scalar.getType()).getElementType();
    Value spread = scalar;
    if (type.getRank() != 0)
      spread = builder.create<heddle::BroadcastOp>(
          op->getLoc(), RankedTensorType::get(type.getShape(), element), scalar,
          ArrayRef<int64_t>(), StringAttr());
    if (auto select = dyn_cast<arith::SelectOp>(op)) {
      select.getConditionMutable().assign(spread);
      continue;
    }
    op->getResult(0).replaceAllUsesWith(spread);
    op->erase();
  }
  // What computed the scalars is not needed any more.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  return success();
}
