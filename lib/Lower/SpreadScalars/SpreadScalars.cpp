//===- SpreadScalars.cpp - heddle-spread-scalars --------------------------===//

#include "../DecomposeOps/Decomposer.h"
#include "../DecomposeOps/GenericForm.h"
#include "../InlineCalls/WriteOut.h"
#include "ScalarTensors.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Support/GenerateForm.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"
#include <numeric>

namespace heddle {
#define GEN_PASS_DEF_SPREADSCALARSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

static LogicalResult emitNoTensor(Operation *op, Value scalar,
                                  const ScalarTensors &tensors) {
  auto diag = op->emitOpError()
              << "cannot be compiled: expected a scalar that is a constant or "
                 "computed from tensors by arith and math";
  if (Operation *unknown = tensors.findUnknown(scalar)) {
    diag << ", got one of '" << unknown->getName() << "'; lower that op first";
    diag.attachNote(unknown->getLoc()) << "the scalar comes from here";
  }
  return diag;
}

/// Returns the scalar that an op spreads over its result. Null if the op
/// spreads no scalar or a constant one.
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

/// Replaces the op by one that spreads a tensor without dimensions.
static LogicalResult spread(Operation *op, ScalarTensors &tensors) {
  Value number = getSpreadScalar(op), scalar = tensors.get(number);
  if (!scalar)
    return emitNoTensor(op, number, tensors);
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

/// Replaces tensor.from_elements by a concatenation of tensors of one element.
static LogicalResult joinElements(tensor::FromElementsOp op,
                                  ScalarTensors &tensors) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<Value> rows;
  for (Value element : op.getElements()) {
    Value tensor = tensors.get(element);
    if (!tensor)
      return emitNoTensor(op, element, tensors);
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

/// Replaces a pad by an insertion of its source into a tensor filled with the
/// padding value.
static LogicalResult insertIntoPadding(tensor::PadOp op,
                                       ScalarTensors &tensors) {
  Value scalar = tensors.get(op.getConstantPaddingValue());
  if (!scalar)
    return emitNoTensor(op, op.getConstantPaddingValue(), tensors);
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

/// Returns whether the op is a pad of static sizes with a computed value.
static bool isPadOfComputed(tensor::PadOp op) {
  Value value = op.getConstantPaddingValue();
  return value && !matchPattern(value, m_Constant()) &&
         op.getResultType().hasStaticShape() && op->getNumOperands() == 1;
}

/// Replaces tensor.insert by the insertion of a slice of one element.
static void insertElement(tensor::InsertOp op) {
  OpBuilder builder(op);
  auto type = cast<RankedTensorType>(op.getDest().getType());
  Value element = toProgramTensor(builder, op.getLoc(), op.getScalar());
  SmallVector<OpFoldResult> ones(type.getRank(), builder.getIndexAttr(1));
  auto slice = builder.create<tensor::InsertSliceOp>(
      op.getLoc(), element, op.getDest(),
      getAsOpFoldResult(ValueRange(op.getIndices())), ones, ones);
  op.replaceAllUsesWith(slice.getResult());
  op.erase();
}

//===----------------------------------------------------------------------===//
// Structured ops
//===----------------------------------------------------------------------===//

/// Returns the outside scalars that the op's body uses. Leaves out constants
/// and indices that depend on no tensor, which a program computes itself.
static SmallVector<Value> getCapturedScalars(Operation *op,
                                             ScalarTensors &tensors) {
  llvm::SetVector<Value> above;
  getUsedValuesDefinedAbove(op->getRegions(), above);
  return llvm::to_vector(llvm::make_filter_range(above, [&](Value value) {
    if (matchPattern(value, m_Constant()))
      return false;
    return value.getType().isIntOrFloat() ||
           (value.getType().isIndex() && tensors.get(value));
  }));
}

/// Replaces the op by a linalg.generic that reads each captured scalar as an
/// operand without dimensions.
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
      return emitNoTensor(generic, scalar, tensors);
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
    Location loc = generic.getLoc();
    Value read = body.front().insertArgument(
        first + i, getElementTypeOrSelf(inputs[first + i].getType()), loc);
    if (scalar.getType().isIndex()) {
      rewriter.setInsertionPointToStart(&body.front());
      read = rewriter.create<arith::IndexCastOp>(loc, rewriter.getIndexType(),
                                                 read);
    }
    scalar.replaceUsesWithIf(read, [&](OpOperand &use) {
      return body.isAncestor(use.getOwner()->getParentRegion());
    });
  }
  rewriter.replaceOp(generic, reading);
  return success();
}

/// Replaces a structured op's scalar operands, and the scalars that its body
/// captures, by tensors.
static LogicalResult readScalars(linalg::LinalgOp op, ScalarTensors &tensors) {
  for (OpOperand *operand : op.getDpsInputOperands()) {
    if (!operand->get().getType().isIntOrFloat())
      continue;
    Value tensor = tensors.get(operand->get());
    if (!tensor)
      return emitNoTensor(op, operand->get(), tensors);
    operand->set(tensor);
  }
  SmallVector<Value> captured = getCapturedScalars(op, tensors);
  return captured.empty() ? success() : readCaptured(op, captured, tensors);
}

/// Replaces a slice whose offset depends on a tensor by a structured op.
static LogicalResult readPlaces(OffsetSizeAndStrideOpInterface slice,
                                ScalarTensors &tensors) {
  OpBuilder builder(slice);
  if (llvm::none_of(slice.getOffsets(),
                    [&](Value offset) { return bool(tensors.get(offset)); }) ||
      !decomposeShape(slice, builder))
    return success();
  auto structured = dyn_cast<linalg::LinalgOp>(slice->getPrevNode());
  slice.erase();
  return structured ? readScalars(structured, tensors) : success();
}

/// Replaces tensor.generate by a structured op if its elements depend on
/// computed scalars.
static LogicalResult readScalars(tensor::GenerateOp op,
                                 ScalarTensors &tensors) {
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<Value> captured = getCapturedScalars(op, tensors);
  if (captured.empty() || !type.hasStaticShape())
    return success();
  OpBuilder builder(op);
  linalg::GenericOp structured = toStructured(builder, op, type);
  op.replaceAllUsesWith(structured.getResult(0));
  op.erase();
  return readCaptured(structured, captured, tensors);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Turns the function's scalar arguments and results into tensors without
/// dimensions.
static void passAsTensors(func::FuncOp function) {
  Block &body = function.getBody().front();
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  Location loc = function.getLoc();
  for (BlockArgument argument : body.getArguments()) {
    Type type = argument.getType();
    RankedTensorType tensor = getProgramType(type);
    if (!tensor || tensor == type)
      continue;
    argument.setType(tensor);
    Value number = fromProgramTensor(builder, loc, argument, type);
    Operation *first = number.getDefiningOp();
    if (type.isIndex())
      first = first->getOperand(0).getDefiningOp();
    argument.replaceAllUsesExcept(number, first);
  }
  Operation *end = body.getTerminator();
  builder.setInsertionPoint(end);
  for (OpOperand &result : end->getOpOperands())
    if (getProgramType(result.get().getType()))
      result.set(toProgramTensor(builder, loc, result.get()));
  function.setFunctionType(
      builder.getFunctionType(body.getArgumentTypes(), end->getOperandTypes()));
}

static LogicalResult spreadScalarsOf(Operation *op, ScalarTensors &tensors) {
  if (getSpreadScalar(op))
    return spread(op, tensors);
  if (auto elements = dyn_cast<tensor::FromElementsOp>(op))
    return elements.getElements().size() > 1 ? joinElements(elements, tensors)
                                             : success();
  if (auto pad = dyn_cast<tensor::PadOp>(op))
    return isPadOfComputed(pad) ? insertIntoPadding(pad, tensors) : success();
  if (auto slice = dyn_cast<OffsetSizeAndStrideOpInterface>(op))
    return readPlaces(slice, tensors);
  if (auto generate = dyn_cast<tensor::GenerateOp>(op))
    return readScalars(generate, tensors);
  if (auto structured = dyn_cast<linalg::LinalgOp>(op);
      structured && !isa<linalg::FillOp>(op))
    return readScalars(structured, tensors);
  return success();
}

static LogicalResult spreadScalars(func::FuncOp function) {
  // A scalar is inserted as a slice of one element.
  for (auto insert : llvm::to_vector(function.getOps<tensor::InsertOp>()))
    insertElement(insert);
  passAsTensors(function);
  ScalarTensors tensors;
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    ops.push_back(&op);
  for (Operation *op : ops)
    if (failed(spreadScalarsOf(op, tensors)))
      return failure();
  // Removes the ops that computed the scalars.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  return success();
}

/// Rounds constants. MLIR folds such an op only if no digit is lost. Otherwise
/// the rounding would become a kernel.
static void roundConstants(func::FuncOp program) {
  program.walk([](arith::TruncFOp round) {
    DenseElementsAttr value;
    auto type = dyn_cast<RankedTensorType>(round.getType());
    if (!type || !matchPattern(round.getIn(), m_Constant(&value)) ||
        !value.isSplat())
      return;
    llvm::APFloat number = value.getSplatValue<llvm::APFloat>();
    bool losesInfo;
    number.convert(cast<FloatType>(type.getElementType()).getFloatSemantics(),
                   llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    OpBuilder builder(round);
    Value constant = builder.create<arith::ConstantOp>(
        round.getLoc(), DenseElementsAttr::get(type, number));
    round.replaceAllUsesWith(constant);
    round.erase();
  });
}

namespace {
struct SpreadScalarsPass
    : heddle::impl::SpreadScalarsPassBase<SpreadScalarsPass> {
  void runOnOperation() override {
    FailureOr<SmallVector<func::FuncOp>> programs = getPrograms(getOperation());
    if (failed(programs))
      return signalPassFailure();
    for (func::FuncOp program : *programs)
      if (failed(spreadScalars(program)))
        return signalPassFailure();
    llvm::for_each(*programs, roundConstants);
  }
};
} // namespace
