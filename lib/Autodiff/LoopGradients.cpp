//===- LoopGradients.cpp - Backward through a loop ------------------------===//

#include "LoopGradients.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Autodiff/Autodiff.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

/// Returns the values from outside of the op that its regions use. The op may
/// be in a region that has no parent yet.
static SetVector<Value> getCaptured(Operation &op) {
  SetVector<Value> captured;
  op.walk([&](Operation *inner) {
    if (inner == &op)
      return;
    for (Value operand : inner->getOperands())
      if (Operation *parent = operand.getParentBlock()->getParentOp();
          !parent || !op.isAncestor(parent))
        captured.insert(operand);
  });
  return captured;
}

SmallVector<Value> heddle::getUsedValues(Operation &op) {
  SetVector<Value> used(op.operand_begin(), op.operand_end());
  if (op.getNumRegions() != 0)
    for (Value value : getCaptured(op))
      used.insert(value);
  return used.takeVector();
}

bool heddle::isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

namespace {

/// A value that the loop carries.
struct Carried {
  BlockArgument argument;
  Value init, yielded;
  /// The stack of the value at the start of each iteration. Null if the value
  /// is not read.
  Value stack;

  bool isConstant() const { return yielded == argument; }
  /// Tells whether the backward loop carries a gradient of the value.
  bool hasGradient() const { return !isConstant() && isFloat(argument); }
};

class LoopGradients {
public:
  LoopGradients(OpBuilder &builder, scf::ForOp loop)
      : b(builder), loop(loop), loc(loop.getLoc()) {}

  LogicalResult analyze();
  void storeCarried();
  LogicalResult build(ArrayRef<Value> resultGradients,
                      function_ref<bool(Value)> isWanted,
                      function_ref<void(Value, Value gradient)> add);

private:
  Value index(int64_t value) {
    return b.create<arith::ConstantIndexOp>(loc, value);
  }
  Value zero(Value like) { return createSplat(b, loc, like.getType(), 0); }
  /// Returns the place of an iteration's value in a stack.
  void getPlace(Value iteration, RankedTensorType type,
                SmallVectorImpl<OpFoldResult> &offsets,
                SmallVectorImpl<OpFoldResult> &sizes,
                SmallVectorImpl<OpFoldResult> &strides);
  /// Copies the body to the insertion point, for the given iteration. Returns
  /// the mapping from the body's values to the copies.
  IRMapping repeatBody(Value iteration);

  OpBuilder &b;
  scf::ForOp loop;
  Location loc;
  int64_t first = 0, step = 1, count = 0;
  SmallVector<Carried> carried;
};

} // namespace

/// Checks that the body of a loop may run again in the backward loop.
static LogicalResult verifyRepeatable(scf::ForOp loop) {
  WalkResult result = loop.getBody()->walk([](Operation *op) {
    if (op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
        isMemoryEffectFree(op))
      return WalkResult::advance();
    InFlightDiagnostic diag = op->emitOpError();
    if (isa<LoadOp>(op))
      diag << "expected it before the loop";
    else if (isa<StoreOp>(op))
      diag << "expected it after the loop, of a value that the loop carries";
    else
      diag << "expected no side effect in a loop";
    diag << ": the loop has a gradient, so the backward pass repeats its body";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult LoopGradients::analyze() {
  std::optional<int64_t> lower = getConstantIntValue(loop.getLowerBound()),
                         upper = getConstantIntValue(loop.getUpperBound()),
                         by = getConstantIntValue(loop.getStep());
  if (!lower || !upper || !by || *by < 1)
    return loop.emitOpError()
           << "expected constant bounds and a constant step: the gradient of a "
              "loop of another length is not defined";
  first = *lower;
  step = *by;
  count = std::max<int64_t>(0, llvm::divideCeilSigned(*upper - first, step));
  for (auto [argument, init, yielded] :
       llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs(),
                 loop.getYieldedValues()))
    carried.push_back({argument, init, yielded, Value()});
  for (const Carried &value : carried) {
    auto type = dyn_cast<RankedTensorType>(value.argument.getType());
    if (!value.isConstant() && (!type || !type.hasStaticShape()))
      return loop.emitOpError()
             << "expected it to carry tensors of static shapes, got "
             << value.argument.getType()
             << ": the gradient of another loop is not defined";
  }
  return verifyRepeatable(loop);
}

void LoopGradients::getPlace(Value iteration, RankedTensorType type,
                             SmallVectorImpl<OpFoldResult> &offsets,
                             SmallVectorImpl<OpFoldResult> &sizes,
                             SmallVectorImpl<OpFoldResult> &strides) {
  offsets.assign(type.getRank() + 1, b.getIndexAttr(0));
  strides.assign(type.getRank() + 1, b.getIndexAttr(1));
  offsets.front() = iteration;
  sizes.assign(1, b.getIndexAttr(1));
  for (int64_t size : type.getShape())
    sizes.push_back(b.getIndexAttr(size));
}

void LoopGradients::storeCarried() {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop);
  SmallVector<Value> inits(loop.getInitArgs());
  SmallVector<unsigned> stored;
  for (auto [i, value] : llvm::enumerate(carried)) {
    if (value.isConstant() || value.argument.use_empty())
      continue;
    auto type = cast<RankedTensorType>(value.argument.getType());
    SmallVector<int64_t> shape{count};
    llvm::append_range(shape, type.getShape());
    stored.push_back(i);
    inits.push_back(
        b.create<tensor::EmptyOp>(loc, shape, type.getElementType()));
  }
  auto storing = b.create<scf::ForOp>(
      loc, loop.getLowerBound(), loop.getUpperBound(), loop.getStep(), inits,
      [&](OpBuilder &, Location, Value iv, ValueRange arguments) {
        IRMapping mapping;
        mapping.map(loop.getInductionVar(), iv);
        for (auto [from, to] : llvm::zip(loop.getRegionIterArgs(), arguments))
          mapping.map(from, to);
        for (Operation &op : loop.getBody()->without_terminator())
          b.clone(op, mapping);
        SmallVector<Value> yielded;
        for (Value value : loop.getYieldedValues())
          yielded.push_back(mapping.lookupOrDefault(value));
        Value iteration = iv;
        if (!iv.getType().isIndex())
          iteration =
              b.create<arith::IndexCastOp>(loc, b.getIndexType(), iteration);
        if (first != 0)
          iteration = b.create<arith::SubIOp>(loc, iteration, index(first));
        if (step != 1)
          iteration = b.create<arith::DivUIOp>(loc, iteration, index(step));
        ValueRange stacks = arguments.drop_front(carried.size());
        for (auto [i, stack] : llvm::zip(stored, stacks)) {
          SmallVector<OpFoldResult> offsets, sizes, strides;
          auto type = cast<RankedTensorType>(arguments[i].getType());
          getPlace(iteration, type, offsets, sizes, strides);
          yielded.push_back(b.create<tensor::InsertSliceOp>(
              loc, arguments[i], stack, offsets, sizes, strides));
        }
        b.create<scf::YieldOp>(loc, yielded);
      });
  storing->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  for (auto [i, stack] :
       llvm::zip(stored, storing.getResults().drop_front(carried.size())))
    carried[i].stack = stack;
  for (auto [from, to] : llvm::zip(loop.getResults(), storing.getResults()))
    from.replaceAllUsesWith(to);
}

IRMapping LoopGradients::repeatBody(Value iteration) {
  IRMapping mapping;
  Value iv = iteration;
  if (step != 1)
    iv = b.create<arith::MulIOp>(loc, iv, index(step));
  if (first != 0)
    iv = b.create<arith::AddIOp>(loc, iv, index(first));
  Type type = loop.getInductionVar().getType();
  if (!type.isIndex())
    iv = b.create<arith::IndexCastOp>(loc, type, iv);
  mapping.map(loop.getInductionVar(), iv);
  for (const Carried &value : carried) {
    if (value.isConstant()) {
      mapping.map(value.argument, value.init);
    } else if (value.stack) {
      SmallVector<OpFoldResult> offsets, sizes, strides;
      auto type = cast<RankedTensorType>(value.argument.getType());
      getPlace(iteration, type, offsets, sizes, strides);
      mapping.map(value.argument,
                  b.create<tensor::ExtractSliceOp>(loc, type, value.stack,
                                                   offsets, sizes, strides));
    }
  }
  for (Operation &op : loop.getBody()->without_terminator())
    b.clone(op, mapping);
  return mapping;
}

LogicalResult
LoopGradients::build(ArrayRef<Value> resultGradients,
                     function_ref<bool(Value)> isWanted,
                     function_ref<void(Value, Value gradient)> add) {
  // The backward loop carries the gradients of the carried values. For each
  // value that all iterations use, it also carries the sum of the value's
  // gradients.
  SmallVector<Value> gradientInits;
  for (auto [value, gradient] : llvm::zip(carried, resultGradients))
    if (value.hasGradient())
      gradientInits.push_back(gradient ? gradient : zero(value.argument));
  SetVector<Value> used = getCaptured(*loop);
  for (const Carried &value : carried)
    if (value.isConstant())
      used.insert(value.init);
  used.remove_if(
      [&](Value value) { return !isFloat(value) || !isWanted(value); });
  unsigned numCarried = gradientInits.size();
  for (Value value : used)
    gradientInits.push_back(zero(value));

  LogicalResult status = success();
  auto backward = b.create<scf::ForOp>(
      loc, index(0), index(count), index(1), gradientInits,
      [&](OpBuilder &, Location, Value iv, ValueRange arguments) {
        Value iteration = b.create<arith::SubIOp>(loc, index(count - 1), iv);
        IRMapping mapping = repeatBody(iteration);
        SmallVector<Seed> seeds;
        SmallVector<Value> wrt;
        for (const Carried &value : carried)
          if (value.hasGradient()) {
            Value yielded = mapping.lookupOrDefault(value.yielded);
            seeds.push_back({yielded, arguments[seeds.size()]});
            if (value.stack)
              wrt.push_back(mapping.lookup(value.argument));
          }
        llvm::append_range(wrt, used);
        FailureOr<SmallVector<Value>> gradients =
            buildGradients(b, *b.getInsertionBlock(), seeds, wrt);
        SmallVector<Value> yielded;
        if (failed(gradients)) {
          status = failure();
          llvm::append_range(yielded, arguments);
        } else {
          ArrayRef<Value> rest = *gradients;
          for (const Carried &value : carried)
            if (value.hasGradient()) {
              Value gradient = value.stack ? rest.front() : Value();
              rest = rest.drop_front(value.stack ? 1 : 0);
              yielded.push_back(gradient ? gradient : zero(value.argument));
            }
          for (auto [sum, gradient] :
               llvm::zip(arguments.drop_front(numCarried), rest))
            yielded.push_back(addGradients(b, loc, sum, gradient));
        }
        b.create<scf::YieldOp>(loc, yielded);
      });
  if (failed(status))
    return failure();
  ValueRange sums = backward.getResults();
  for (auto [value, gradient] : llvm::zip(carried, resultGradients)) {
    if (value.hasGradient()) {
      add(value.init, sums.front());
      sums = sums.drop_front();
    } else if (gradient) {
      add(value.init, gradient);
    }
  }
  for (auto [value, sum] : llvm::zip(used, sums))
    add(value, sum);
  return success();
}

LogicalResult
heddle::buildLoopGradients(OpBuilder &builder, scf::ForOp loop,
                           ArrayRef<Value> resultGradients,
                           function_ref<bool(Value)> isWanted,
                           function_ref<void(Value, Value gradient)> add) {
  LoopGradients gradients(builder, loop);
  if (failed(gradients.analyze()))
    return failure();
  gradients.storeCarried();
  return gradients.build(resultGradients, isWanted, add);
}
