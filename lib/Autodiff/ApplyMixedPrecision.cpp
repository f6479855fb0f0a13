//===- ApplyMixedPrecision.cpp - Products in bf16, sums in f32 ------------===//
//
// The policy is torch.autocast's; see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Heddle/Heddle.h"
#include "heddle/Autodiff/Autodiff.h"
#include "heddle/Autodiff/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"

namespace heddle {
#define GEN_PASS_DEF_APPLYMIXEDPRECISIONPASS
#include "heddle/Autodiff/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static bool isF32Tensor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isF32();
}

namespace {

class Narrower {
public:
  explicit Narrower(MLIRContext *context)
      : builder(context), narrow(BFloat16Type::get(context)) {}

  void visit(Operation *op);

private:
  void makeNarrow(PrecisionOpInterface op);
  bool isNarrowed(Value value) const { return narrowed.contains(value); }

  /// Replaces operand `i` by a cast to bf16 (or to f32) just before `op`.
  void narrowOperand(Operation *op, unsigned i);
  void widenOperand(Operation *op, unsigned i);
  /// Changes an f32 result of an op to bf16.
  void narrowResult(Value result);
  /// Returns whether operand `i` can be bf16 while the op computes what torch
  /// computes.
  bool canBeNarrow(PrecisionOpInterface op, unsigned i) const;
  bool canFollow(PrecisionOpInterface op) const;

  OpBuilder builder;
  Type narrow;
  llvm::DenseSet<Value> narrowed;
};

} // namespace

static bool isSplatConstant(Value value) {
  DenseElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && elements.isSplat();
}

/// Returns the load of a bias: a variable that is broadcast and then added.
/// Null for any other operand.
static LoadOp biasOf(Operation *user, Value operand) {
  auto broadcast = operand.getDefiningOp<BroadcastOp>();
  if (!broadcast || !isa<arith::AddFOp>(user))
    return nullptr;
  return broadcast.getX().getDefiningOp<LoadOp>();
}

void Narrower::narrowResult(Value result) {
  result.setType(cast<RankedTensorType>(result.getType()).clone(narrow));
  narrowed.insert(result);
}

void Narrower::narrowOperand(Operation *op, unsigned i) {
  Value value = op->getOperand(i);
  if (!isF32Tensor(value))
    return;
  builder.setInsertionPoint(op);
  auto type = cast<RankedTensorType>(value.getType()).clone(narrow);
  Value cast;
  if (isSplatConstant(value)) {
    DenseElementsAttr elements;
    matchPattern(value, m_Constant(&elements));
    cast = createSplat(builder, value.getLoc(), type,
                       elements.getSplatValue<APFloat>().convertToDouble());
  } else if (LoadOp load = biasOf(op, value)) {
    auto broadcast = value.getDefiningOp<BroadcastOp>();
    Value bias = builder.create<arith::TruncFOp>(
        load.getLoc(), load.getType().clone(narrow), load);
    cast = builder.create<BroadcastOp>(broadcast.getLoc(), type, bias,
                                       broadcast.getAlongAttr(),
                                       broadcast.getOpNameAttr());
  } else {
    cast = builder.create<arith::TruncFOp>(op->getLoc(), type, value);
  }
  op->setOperand(i, cast);
}

void Narrower::widenOperand(Operation *op, unsigned i) {
  Value value = op->getOperand(i);
  if (!isNarrowed(value))
    return;
  builder.setInsertionPoint(op);
  auto type = cast<RankedTensorType>(value.getType());
  op->setOperand(i, builder.create<arith::ExtFOp>(
                        op->getLoc(), type.clone(builder.getF32Type()), value));
}

bool Narrower::canBeNarrow(PrecisionOpInterface op, unsigned i) const {
  Value value = op->getOperand(i);
  if (!isF32Tensor(value) || op.keepsOperandWide(i))
    return true;
  return isSplatConstant(value) || biasOf(op, value);
}

bool Narrower::canFollow(PrecisionOpInterface op) const {
  if (llvm::none_of(op->getOperands(), [&](Value v) { return isNarrowed(v); }))
    return false;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    if (!canBeNarrow(op, i))
      return false;
  return true;
}

void Narrower::makeNarrow(PrecisionOpInterface op) {
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    if (op.keepsOperandWide(i))
      widenOperand(op, i);
    else
      narrowOperand(op, i);
  for (OpResult result : op->getResults())
    if (isF32Tensor(result) && !op.keepsResultWide(result.getResultNumber()))
      narrowResult(result);
}

void Narrower::visit(Operation *op) {
  if (auto typed = dyn_cast<PrecisionOpInterface>(op)) {
    switch (typed.getPrecision()) {
    case Precision::Narrow:
      return makeNarrow(typed);
    case Precision::FollowsOperands:
      if (canFollow(typed))
        return makeNarrow(typed);
      break;
    case Precision::ReadsNarrow:
      return;
    }
  }
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    widenOperand(op, i);
}

namespace {

struct ApplyMixedPrecisionPass
    : heddle::impl::ApplyMixedPrecisionPassBase<ApplyMixedPrecisionPass> {
  using Base::Base;

  void runOnOperation() override {
    if (compute == ComputeType::F32)
      return;
    ModuleOp module = getOperation();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    if (!forward) {
      module.emitError() << "expected a function @forward";
      return signalPassFailure();
    }
    Narrower narrower(&getContext());
    SmallVector<Operation *> ops;
    for (Operation &op : forward.getOps())
      ops.push_back(&op);
    for (Operation *op : ops)
      narrower.visit(op);
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
  }
};

} // namespace
