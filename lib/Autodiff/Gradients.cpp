//===- Gradients.cpp - Backward through a block ---------------------------===//

#include "LoopGradients.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Autodiff/Autodiff.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace heddle;

Value heddle::createSplat(OpBuilder &builder, Location loc, Type type,
                          double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr = isa<FloatType>(element)
                       ? TypedAttr(builder.getFloatAttr(element, value))
                       : TypedAttr(builder.getIntegerAttr(element, value));
  if (auto shaped = dyn_cast<ShapedType>(type))
    attr = DenseElementsAttr::get(shaped, Attribute(attr));
  return builder.create<arith::ConstantOp>(loc, attr);
}

/// If `gradient` is zero outside of one slice at a computed offset (such as the
/// slice of one loop iteration), builds `gradient + base`, which changes only
/// that slice of `base`. Otherwise returns null.
static Value addSlice(OpBuilder &builder, Value gradient, Value base) {
  auto insert = gradient.getDefiningOp<tensor::InsertSliceOp>();
  if (!insert || !gradient.use_empty() || insert.getOffsets().empty() ||
      !matchPattern(insert.getDest(), m_AnyZeroFloat()))
    return nullptr;
  Location loc = gradient.getLoc();
  auto part = builder.create<tensor::ExtractSliceOp>(
      loc, insert.getSourceType(), base, insert.getMixedOffsets(),
      insert.getMixedSizes(), insert.getMixedStrides());
  auto sum = builder.create<arith::AddFOp>(loc, part, insert.getSource());
  return builder.create<tensor::InsertSliceOp>(
      loc, sum, base, insert.getMixedOffsets(), insert.getMixedSizes(),
      insert.getMixedStrides());
}

/// If `gradient` is an embedding's gradient without uses, returns a copy of its
/// op that starts from `base`. Otherwise returns null. The original op stays,
/// because its result may be the gradient of other values too.
static Value accumulateInto(OpBuilder &builder, Value gradient, Value base) {
  if (Value sum = addSlice(builder, gradient, base))
    return sum;
  auto embedding = gradient.getDefiningOp<EmbeddingGradOp>();
  if (!embedding || !gradient.use_empty())
    return nullptr;
  Value start =
      addGradients(builder, base.getLoc(), base, embedding.getAccumulate());
  auto sum = cast<EmbeddingGradOp>(builder.clone(*embedding));
  sum.getAccumulateMutable().assign(start);
  return sum;
}

Value heddle::addGradients(OpBuilder &builder, Location loc, Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  if (Value sum = accumulateInto(builder, b, a))
    return sum;
  if (Value sum = accumulateInto(builder, a, b))
    return sum;
  return builder.create<arith::AddFOp>(loc, a, b);
}

namespace {

/// Gives the ops of a vector-Jacobian product the name of the op that is
/// differentiated.
struct Namer : OpBuilder::Listener {
  StringAttr name;

  void notifyOperationInserted(Operation *op,
                               OpBuilder::InsertPoint previous) override {
    if (name && getOpName(op).empty() && op->getNumOperands() != 0)
      setOpName(op, name);
  }
};

} // namespace

FailureOr<SmallVector<Value>> heddle::buildGradients(OpBuilder &builder,
                                                     Block &block,
                                                     ArrayRef<Seed> seeds,
                                                     ArrayRef<Value> wrt) {
  DenseMap<Value, Value> gradients;
  for (const Seed &seed : seeds)
    gradients[seed.value] = addGradients(builder, seed.value.getLoc(),
                                         gradients[seed.value], seed.gradient);

  // Forward: collects the ops that depend on `wrt`.
  SmallVector<Operation *> program;
  DenseSet<Value> active(wrt.begin(), wrt.end());
  auto isActive = [&](Value value) { return active.contains(value); };
  for (Operation &op : block) {
    if (llvm::none_of(getUsedValues(op), isActive))
      continue;
    program.push_back(&op);
    for (Value result : op.getResults())
      if (isFloat(result))
        active.insert(result);
  }

  // Backward: builds the vector-Jacobian products of the collected ops on which
  // a seed depends.
  Namer namer;
  OpBuilder named(builder);
  named.setListener(&namer);
  // Erased at the end: until then their results are keys of the maps.
  SmallVector<Operation *> replaced;
  for (Operation *op : llvm::reverse(program)) {
    SmallVector<Value> resultGradients;
    for (Value result : op->getResults())
      resultGradients.push_back(
          active.contains(result) ? gradients.lookup(result) : Value());
    if (llvm::none_of(resultGradients, [](Value v) { return bool(v); }))
      continue;
    StringRef name = getOpName(op);
    namer.name =
        name.empty() ? StringAttr() : StringAttr::get(op->getContext(), name);
    named.restoreInsertionPoint(builder.saveInsertionPoint());
    auto add = [&](Value value, Value gradient) {
      Value &sum = gradients[value];
      sum = addGradients(builder, op->getLoc(), sum, gradient);
    };
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (failed(
              buildLoopGradients(named, loop, resultGradients, isActive, add)))
        return failure();
      replaced.push_back(loop);
      continue;
    }
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!differentiable)
      return op->emitOpError()
             << "has no gradient, but the loss depends on a parameter through "
                "it; expected an op with DifferentiableOpInterface";
    SmallVector<bool> wanted;
    for (Value operand : op->getOperands())
      wanted.push_back(active.contains(operand));
    for (Value value : getUsedValues(*op))
      if (isActive(value) && !llvm::is_contained(op->getOperands(), value))
        return op->emitOpError()
               << "has no gradient of a value that its region uses, but the "
                  "loss depends on a parameter through it; expected the value "
                  "as an operand";
    SmallVector<Value> operandGradients(op->getNumOperands());
    if (failed(differentiable.buildVjp(named, resultGradients, wanted,
                                       operandGradients)))
      return failure();
    for (auto [i, gradient] : llvm::enumerate(operandGradients)) {
      Value operand = op->getOperand(i);
      if (!gradient || !wanted[i])
        continue;
      if (gradient.getType() != operand.getType())
        return op->emitOpError()
               << "expected a gradient of type " << operand.getType()
               << " of operand " << i << ", got " << gradient.getType();
      add(operand, gradient);
    }
  }

  SmallVector<Value> result;
  for (Value value : wrt)
    result.push_back(gradients.lookup(value));
  for (Operation *loop : replaced)
    loop->erase();
  return result;
}
