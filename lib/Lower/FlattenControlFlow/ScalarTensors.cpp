//===- ScalarTensors.cpp - Scalars computed from tensors, as tensors ------===//

#include "ScalarTensors.h"
#include "../DecomposeOps/GenericForm.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"
#include <numeric>

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Whether the op on tensors is the op on each of their elements.
static bool isMappable(Operation *op) {
  return OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1;
}

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
  if (!isMappable(op))
    return {};
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Value tensor = lookup(operand);
    if (!tensor)
      return {};
    operands.push_back(tensor);
  }
  Operation *mapped = builder.clone(*op);
  mapped->setOperands(operands);
  mapped->getResult(0).setType(type);
  return mapped->getResult(0);
}

Value ScalarTensors::lookup(Value scalar) const {
  return isa<RankedTensorType>(scalar.getType()) ? scalar
                                                 : tensors.lookup(scalar);
}

Value ScalarTensors::get(Value scalar) {
  // Operands first. Loops that are written out make chains too long to recurse.
  auto isOpen = [&](Value value) {
    return !isa<RankedTensorType>(value.getType()) && !tensors.contains(value);
  };
  SmallVector<Value> open = {scalar};
  while (!open.empty()) {
    Value next = open.back();
    Operation *op = next.getDefiningOp();
    size_t size = open.size();
    if (op && isOpen(next) && isMappable(op))
      llvm::copy_if(op->getOperands(), std::back_inserter(open), isOpen);
    if (open.size() != size)
      continue;
    open.pop_back();
    if (isOpen(next))
      tensors[next] = op ? make(op, next.getType()) : Value();
  }
  return lookup(scalar);
}

static LogicalResult emitNoTensor(Operation *op) {
  return op->emitOpError()
         << "cannot be compiled: expected a scalar that is a constant or "
            "computed from tensors";
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

/// Replaces the op that spreads a scalar by one that spreads a tensor.
static LogicalResult spread(Operation *op, ScalarTensors &tensors) {
  Value scalar = tensors.get(getSpreadScalar(op));
  if (!scalar)
    return emitNoTensor(op);
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
    return success();
  }
  op->getResult(0).replaceAllUsesWith(spread);
  op->erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Scalars as parts of a tensor
//===----------------------------------------------------------------------===//

/// Elements, each as a tensor of one, in a row.
static LogicalResult joinElements(tensor::FromElementsOp op,
                                  ScalarTensors &tensors) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<Value> rows;
  for (Value element : op.getElements()) {
    Value tensor = tensors.get(element);
    if (!tensor)
      return emitNoTensor(op);
    builder.setInsertionPoint(op);
    rows.push_back(builder.create<tensor::ExpandShapeOp>(
        loc, RankedTensorType::get({1}, type.getElementType()), tensor,
        ArrayRef<ReassociationIndices>()));
  }
  Value joined = builder.create<tensor::ConcatOp>(loc, /*dim=*/0, rows);
  if (type.getRank() != 1) {
    ReassociationIndices all(type.getRank());
    std::iota(all.begin(), all.end(), 0);
    joined = builder.create<tensor::ExpandShapeOp>(
        loc, type, joined, SmallVector<ReassociationIndices>{all});
  }
  op.replaceAllUsesWith(joined);
  op->erase();
  return success();
}

/// The source in the middle of a tensor of the padding's value.
static LogicalResult insertIntoPadding(tensor::PadOp op,
                                       ScalarTensors &tensors) {
  Value scalar = tensors.get(op.getConstantPaddingValue());
  if (!scalar)
    return emitNoTensor(op);
  OpBuilder builder(op);
  Value padding = builder.create<heddle::BroadcastOp>(
      op.getLoc(), op.getResultType(), scalar, ArrayRef<int64_t>(),
      StringAttr());
  SmallVector<OpFoldResult> sizes, ones;
  for (int64_t size : op.getSourceType().getShape()) {
    sizes.push_back(builder.getIndexAttr(size));
    ones.push_back(builder.getIndexAttr(1));
  }
  Value padded = builder.create<tensor::InsertSliceOp>(
      op.getLoc(), op.getSource(), padding, op.getMixedLowPad(), sizes, ones);
  op.replaceAllUsesWith(padded);
  op->erase();
  return success();
}

/// A pad of static sizes with a value that is computed.
static bool isPadOfComputed(tensor::PadOp op) {
  Value value = op.getConstantPaddingValue();
  return value && !matchPattern(value, m_Constant()) &&
         op.getResultType().hasStaticShape() && op->getNumOperands() == 1;
}

//===----------------------------------------------------------------------===//
// Structured ops
//===----------------------------------------------------------------------===//

/// The scalars that the op's body takes from around it, but for constants and
/// indices, which are computed along the program.
static SmallVector<Value> getCapturedScalars(linalg::LinalgOp op) {
  llvm::SetVector<Value> above;
  getUsedValuesDefinedAbove(op->getRegions(), above);
  return llvm::to_vector(llvm::make_filter_range(above, [](Value value) {
    return value.getType().isIntOrFloat() && !matchPattern(value, m_Constant());
  }));
}

/// A generic op with one operand without dimensions for each captured scalar.
static LogicalResult readCaptured(linalg::LinalgOp op, ArrayRef<Value> scalars,
                                  ScalarTensors &tensors) {
  IRRewriter rewriter(op.getContext());
  FailureOr<linalg::GenericOp> form = makeGeneric(rewriter, op);
  if (failed(form))
    return failure();
  linalg::GenericOp generic = *form;
  rewriter.setInsertionPoint(generic);
  SmallVector<Value> inputs(generic.getInputs());
  SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
  AffineMap none = AffineMap::get(generic.getNumLoops(), 0, op.getContext());
  unsigned first = inputs.size();
  for (Value scalar : scalars) {
    Value tensor = tensors.get(scalar);
    if (!tensor)
      return emitNoTensor(generic);
    maps.insert(maps.begin() + inputs.size(), none);
    inputs.push_back(tensor);
  }
  auto reading = rewriter.create<linalg::GenericOp>(
      generic.getLoc(), generic.getResultTypes(), inputs, generic.getOutputs(),
      rewriter.getAffineMapArrayAttr(maps), generic.getIteratorTypes(),
      generic.getDocAttr(), generic.getLibraryCallAttr());
  reading->setDiscardableAttrs(generic->getDiscardableAttrDictionary());
  Region &body = reading.getRegion();
  rewriter.inlineRegionBefore(generic.getRegion(), body, body.begin());
  for (auto [i, captured] : llvm::enumerate(scalars)) {
    Value scalar = captured;
    BlockArgument read = body.front().insertArgument(
        first + i, scalar.getType(), generic.getLoc());
    scalar.replaceUsesWithIf(read, [&](OpOperand &use) {
      return body.isAncestor(use.getOwner()->getParentRegion());
    });
  }
  rewriter.replaceOp(generic, reading);
  return success();
}

/// Operands of a structured op that are scalars, and scalars in its body.
static LogicalResult readScalars(linalg::LinalgOp op, ScalarTensors &tensors) {
  for (OpOperand *operand : op.getDpsInputOperands()) {
    if (!operand->get().getType().isIntOrFloat())
      continue;
    Value tensor = tensors.get(operand->get());
    if (!tensor)
      return emitNoTensor(op);
    operand->set(tensor);
  }
  SmallVector<Value> captured = getCapturedScalars(op);
  return captured.empty() ? success() : readCaptured(op, captured, tensors);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Arguments and results that are numbers become tensors without dimensions.
static void passAsTensors(func::FuncOp function) {
  Block &body = function.getBody().front();
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  Location loc = function.getLoc();
  for (BlockArgument argument : body.getArguments()) {
    Type type = argument.getType();
    if (!type.isIntOrFloat())
      continue;
    argument.setType(RankedTensorType::get({}, type));
    auto number =
        builder.create<tensor::ExtractOp>(loc, type, argument, ValueRange());
    argument.replaceAllUsesExcept(number, number);
  }
  Operation *end = body.getTerminator();
  builder.setInsertionPoint(end);
  for (OpOperand &result : end->getOpOperands())
    if (Type type = result.get().getType(); type.isIntOrFloat())
      result.set(builder.create<tensor::FromElementsOp>(
          loc, RankedTensorType::get({}, type), result.get()));
  function.setFunctionType(
      builder.getFunctionType(body.getArgumentTypes(), end->getOperandTypes()));
}

LogicalResult lower::spreadScalars(func::FuncOp function) {
  passAsTensors(function);
  ScalarTensors tensors;
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    ops.push_back(&op);
  for (Operation *op : ops) {
    if (getSpreadScalar(op)) {
      if (failed(spread(op, tensors)))
        return failure();
    } else if (auto elements = dyn_cast<tensor::FromElementsOp>(op);
               elements && elements.getElements().size() > 1) {
      if (failed(joinElements(elements, tensors)))
        return failure();
    } else if (auto pad = dyn_cast<tensor::PadOp>(op);
               pad && isPadOfComputed(pad)) {
      if (failed(insertIntoPadding(pad, tensors)))
        return failure();
    } else if (auto structured = dyn_cast<linalg::LinalgOp>(op);
               structured && !isa<linalg::FillOp>(op)) {
      if (failed(readScalars(structured, tensors)))
        return failure();
    }
  }
  // What computed the scalars is not needed any more.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  return success();
}
