//===- FunctionSplitter.cpp - Splits the ops of one function --------------===//

#include "FunctionSplitter.h"
#include "../Explain/ShardingExplainer.h"
#include "OpSlices.h"
#include "heddle/Support/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

StringAttr heddle::getSliceName(StringAttr variable, int64_t slice) {
  return StringAttr::get(variable.getContext(),
                         variable.getValue() + ".slice" + Twine(slice));
}

/// Returns whether the op adds its sum over the factor to an operand.
static bool hasAccumulator(const ShardingRule &rule, unsigned factor) {
  for (unsigned operand = 0; operand < rule.operands.size(); ++operand)
    if (isAccumulator(rule, factor, operand))
      return true;
  return false;
}

/// Returns the factor that splits the dimension, if it is the only one.
static std::optional<unsigned> factorOf(const TensorFactors &tensor,
                                        int64_t dim) {
  if (dim >= (int64_t)tensor.size() || tensor[dim].size() != 1)
    return std::nullopt;
  return tensor[dim][0];
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Returns whether the value is a load, or a cast of one, that can be repeated
/// at each use, so that its gathered slices live for one product only. Not so
/// if a store to the variable precedes a use.
bool FunctionSplitter::isLazy(Value value) {
  Operation *maker = value.getDefiningOp();
  if (!maker || !slices.getCut(value))
    return false;
  Operation *source = maker;
  while (source->hasTrait<OpTrait::Elementwise>() &&
         source->getNumOperands() == 1 && source->getOperand(0).getDefiningOp())
    source = source->getOperand(0).getDefiningOp();
  auto load = dyn_cast<LoadOp>(source);
  if (!load || load->getBlock() != &block)
    return false;
  for (auto store : block.getOps<StoreOp>()) {
    if (store.getVariableAttr() != load.getVariableAttr() ||
        store->isBeforeInBlock(load))
      continue;
    // The store itself may use the value: it ends the chain.
    for (Operation *user : value.getUsers())
      if (user != store &&
          store->isBeforeInBlock(block.findAncestorOpInBlock(*user)))
        return false;
  }
  return true;
}

Value FunctionSplitter::getSlice(Value value, const Cut &cut, int64_t slice) {
  std::optional<Cut> own = slices.getCut(value);
  Operation *maker = value.getDefiningOp();
  if (own == cut) {
    if (auto known = made.find(value); known != made.end())
      return known->second[slice];
    if (auto load = dyn_cast<LoadOp>(maker))
      return builder.create<LoadOp>(
          load.getLoc(), getSliceType(value.getType(), cut, slice),
          FlatSymbolRefAttr::get(
              getSliceName(load.getVariableAttr().getAttr(), slice)));
    // The value is a cast of a load.
    Value from = getSlice(maker->getOperand(0), cut, slice);
    Operation *copy = builder.clone(*maker);
    copy->setOperand(0, from);
    copy->getResult(0).setType(getSliceType(value.getType(), cut, slice));
    return copy->getResult(0);
  }
  RankedTensorType type = getSliceType(value.getType(), cut, slice);
  if (maker && isFreeTensor(maker))
    if (Value free = makeFreeSlice(builder, maker, maker->getOperands(), type,
                                   cut.dim, slice, cut.getOffset(slice)))
      return free;
  return extractSlice(getWhole(value), cut, slice);
}

Value FunctionSplitter::extractSlice(Value whole, const Cut &cut,
                                     int64_t slice) {
  return extractRows(builder, whole.getLoc(), whole, cut.dim,
                     builder.getIndexAttr(cut.getOffset(slice)),
                     cut.getSize(slice));
}

void FunctionSplitter::setWhole(Value value, Value whole) {
  Cut cut = *slices.getCut(value);
  wholes[value] = whole;
  for (int64_t slice = 0; slice < cut.slices; ++slice)
    made[value].push_back(extractSlice(whole, cut, slice));
}

Value FunctionSplitter::getWhole(Value value) {
  std::optional<Cut> cut = slices.getCut(value);
  if (!cut)
    return value;
  Value &whole = wholes[value];
  if (!whole) {
    SmallVector<Value> parts;
    for (int64_t slice = 0; slice < cut->slices; ++slice)
      parts.push_back(getSlice(value, *cut, slice));
    whole = builder.create<tensor::ConcatOp>(value.getLoc(), value.getType(),
                                             cut->dim, parts);
  }
  return whole;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

std::optional<FunctionSplitter::Loop>
FunctionSplitter::findLoop(Operation *op, const ShardingRule &rule) {
  auto canLoop = [&](unsigned factor) {
    FactorKind kind = rule.factors[factor].kind;
    if ((kind != FactorKind::Parallel && kind != FactorKind::Sum &&
         kind != FactorKind::Max) ||
        hasAccumulator(rule, factor))
      return false;
    // The factor must be the only one of each dimension that it runs over.
    auto isAlone = [&](const TensorFactors &tensor) {
      return llvm::all_of(tensor, [&](const DimensionFactors &dim) {
        return dim.size() == 1 || !llvm::is_contained(dim, factor);
      });
    };
    return llvm::all_of(rule.operands, isAlone) &&
           llvm::all_of(rule.results, isAlone);
  };
  if (auto split = op->getAttrOfType<SplitAttr>(kSplitAttrName))
    if (std::optional<unsigned> factor =
            rule.getFactor(split.getFactor().getValue());
        factor && canLoop(*factor))
      return Loop{*factor, {0, rule.factors[*factor].size, split.getSlices()}};
  auto fromValue = [&](Value value,
                       const TensorFactors &tensor) -> std::optional<Loop> {
    std::optional<Cut> cut = slices.getCut(value);
    std::optional<unsigned> factor =
        cut ? factorOf(tensor, cut->dim) : std::nullopt;
    if (!factor || !canLoop(*factor))
      return std::nullopt;
    return Loop{*factor, *cut};
  };
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    if (auto loop = fromValue(result, rule.results[i]))
      return loop;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (auto loop = fromValue(operand, rule.operands[i]))
      return loop;
  return std::nullopt;
}

FailureOr<SmallVector<Value>>
FunctionSplitter::runSlice(Operation *op, const ShardingRule &rule,
                           const Loop &loop, int64_t slice, TypeRange types) {
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    std::optional<int64_t> dim = findDim(rule.operands[i], loop.factor);
    operands.push_back(
        dim ? getSlice(operand, {*dim, loop.cut.size, loop.cut.slices}, slice)
            : getWhole(operand));
  }
  FailureOr<SliceResults> results =
      runOnSlice(builder, op, operands, types,
                 {loop.factor, slice, loop.cut.getOffset(slice)});
  if (failed(results))
    return failure();
  if (results->needsOthers)
    return op->emitOpError() << describeOp(op) << ": cannot run in slices of "
                             << getFactorKey(rule, loop.factor)
                             << ": each slice needs all others";
  for (Value result : results->values)
    if (Operation *copy = result.getDefiningOp())
      copy->removeAttr(kSplitAttrName);
  return results->values;
}

LogicalResult FunctionSplitter::runInSlices(Operation *op,
                                            const ShardingRule &rule,
                                            const Loop &loop) {
  FactorKind kind = rule.factors[loop.factor].kind;
  unsigned count = op->getNumResults();
  SmallVector<SmallVector<Value>> parts(count);
  SmallVector<Value> sums(count);
  for (int64_t slice = 0; slice < loop.cut.slices; ++slice) {
    SmallVector<Type> types;
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      std::optional<int64_t> dim = findDim(rule.results[i], loop.factor);
      auto type = cast<RankedTensorType>(result.getType());
      types.push_back(dim ? getSliceType(type,
                                         {*dim, loop.cut.size, loop.cut.slices},
                                         slice)
                          : getSumType(op, type));
    }
    FailureOr<SmallVector<Value>> results =
        runSlice(op, rule, loop, slice, types);
    if (failed(results))
      return failure();
    for (auto [i, result] : llvm::enumerate(*results)) {
      if (ShardingRule::runsOver(rule.results[i], loop.factor))
        parts[i].push_back(result);
      else
        sums[i] = sums[i] ? combineSlices(builder, op->getLoc(), sums[i],
                                          result, kind)
                          : result;
    }
  }
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    std::optional<int64_t> dim = findDim(rule.results[i], loop.factor);
    Value whole = sums[i];
    if (dim &&
        slices.getCut(result) == Cut{*dim, loop.cut.size, loop.cut.slices}) {
      for (Value part : parts[i])
        movePin(result, part);
      made[result] = std::move(parts[i]);
      continue;
    }
    if (dim)
      whole = builder.create<tensor::ConcatOp>(op->getLoc(), result.getType(),
                                               *dim, parts[i]);
    else if (whole.getType() != result.getType())
      whole = builder.create<arith::TruncFOp>(op->getLoc(), result.getType(),
                                              whole);
    movePin(result, whole);
    if (slices.getCut(result))
      setWhole(result, whole); // its users cut it along another dimension
    else
      result.replaceAllUsesWith(whole);
  }
  replaced.push_back(op);
  return success();
}

//===----------------------------------------------------------------------===//
// Chains of elementwise ops
//===----------------------------------------------------------------------===//

/// Returns whether the op can join a chain: an elementwise op whose result
/// comes in slices, or a store to a variable that does.
bool FunctionSplitter::joinsChain(Operation *op) {
  return (isa<StoreOp>(op) || op->hasTrait<OpTrait::Elementwise>()) &&
         slices.getCutOfResult(op);
}

LogicalResult FunctionSplitter::flush(Operation *at) {
  if (chain.empty())
    return success();
  builder.setInsertionPoint(at);
  Cut cut = *slices.getCutOfResult(chain.front());
  for (int64_t slice = 0; slice < cut.slices; ++slice)
    for (Operation *op : chain) {
      if (auto store = dyn_cast<StoreOp>(op)) {
        builder.create<StoreOp>(op->getLoc(),
                                getSlice(store.getValue(), cut, slice),
                                FlatSymbolRefAttr::get(getSliceName(
                                    store.getVariableAttr().getAttr(), slice)));
        continue;
      }
      Value result = op->getResult(0);
      SmallVector<Type> types = {getSliceType(result.getType(), cut, slice)};
      ShardingRule rule = getRule(op);
      FailureOr<SmallVector<Value>> results = runSlice(
          op, rule, {*factorOf(rule.results[0], cut.dim), cut}, slice, types);
      if (failed(results))
        return failure();
      movePin(cast<OpResult>(result), (*results)[0]);
      made[result].push_back((*results)[0]);
    }
  llvm::append_range(replaced, chain);
  chain.clear();
  return success();
}

/// Returns whether the op may stand between the ops of a chain: it makes
/// scalars, or a tensor that can be made again for each slice.
bool FunctionSplitter::isTransparent(Operation *op) {
  if (isFreeTensor(op))
    return true;
  return isPure(op) && op->getNumResults() > 0 &&
         llvm::all_of(op->getResultTypes(),
                      [](Type type) {
                        auto tensor = dyn_cast<RankedTensorType>(type);
                        return !tensor || tensor.getRank() == 0;
                      }) &&
         llvm::none_of(op->getOperands(), [&](Value operand) {
           return slices.getCut(operand).has_value();
         });
}

LogicalResult FunctionSplitter::visit(Operation *op) {
  if (isTransparent(op))
    return success();
  bool isLoad = isa<LoadOp>(op) && slices.getCut(op->getResult(0));
  if ((isLoad || (joinsChain(op) && op->getNumResults() == 1)) &&
      isLazy(op->getResult(0))) {
    replaced.push_back(op);
    return success();
  }
  if (joinsChain(op)) {
    if (!chain.empty() &&
        !(slices.getCutOfResult(chain.front()) == slices.getCutOfResult(op)) &&
        failed(flush(op)))
      return failure();
    chain.push_back(op);
    return success();
  }
  if (failed(flush(op)))
    return failure();
  builder.setInsertionPoint(op);
  if (isLoad) {
    Cut cut = *slices.getCut(op->getResult(0));
    SmallVector<Value> loads;
    for (int64_t slice = 0; slice < cut.slices; ++slice)
      loads.push_back(getSlice(op->getResult(0), cut, slice));
    made[op->getResult(0)] = std::move(loads);
    replaced.push_back(op);
    return success();
  }
  ShardingRule rule = getRule(op);
  if (std::optional<Loop> loop = findLoop(op, rule))
    return runInSlices(op, rule, *loop);
  if (auto split = op->getAttrOfType<SplitAttr>(kSplitAttrName))
    return op->emitOpError()
           << describeOp(op) << ": cannot run in slices of "
           << split.getFactor().getValue() << ": the op needs the factor whole";
  // The op stays whole, so its operands and those of ops in its regions are
  // joined.
  op->walk([&](Operation *inner) {
    for (OpOperand &operand : inner->getOpOperands())
      if (slices.getCut(operand.get()))
        operand.set(getWhole(operand.get()));
  });
  builder.setInsertionPointAfter(op);
  for (Value result : op->getResults())
    if (slices.getCut(result))
      setWhole(result, result);
  return success();
}

LogicalResult FunctionSplitter::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);
  for (Operation *op : ops)
    if (failed(visit(op)))
      return failure();
  return success();
}
