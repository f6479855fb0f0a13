//===- FunctionLocalizer.cpp - Localizes one function ---------------------===//

#include "FunctionLocalizer.h"
#include "../Explain/ExchangeRemarks.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Sharding/ControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace heddle;

namespace heddle {

/// Tells an op's own localization how one device takes part in it.
class OpLocalizer final : public Localizer {
public:
  OpLocalizer(FunctionLocalizer &parent, const ShardingRule &rule,
              const FactorAxes &axes, ValueRange operands, TypeRange types,
              Location loc)
      : Localizer(parent.builder, operands, types), parent(parent), rule(rule),
        axes(axes), loc(loc) {}

  bool isSplit(unsigned factor) const override {
    return parent.mesh.getSize(axes[factor]) > 1;
  }
  bool isPadded(unsigned factor) const override {
    return heddle::isPadded(rule.factors[factor].size, axes[factor],
                            parent.mesh.mesh);
  }
  Value getOffset(unsigned factor) override {
    return parent.positions.getOffset(axes[factor], rule.factors[factor].size);
  }
  Value allReduce(Value value, FactorKind kind, unsigned factor) override {
    if (!isSplit(factor))
      return value;
    MLIRContext *context = value.getContext();
    return builder.create<comm::AllReduceOp>(
        loc, value.getType(), value, parent.mesh.symbol.getValue(),
        AxisListAttr::get(context, axes[factor]),
        kind == FactorKind::Max ? ReductionKind::Max : ReductionKind::Sum);
  }
  int64_t getDegree(unsigned factor) const override {
    return parent.mesh.getSize(axes[factor]);
  }
  Value getIndex(unsigned factor) override {
    return parent.positions.getIndex(axes[factor]);
  }
  Value permute(Value value, ArrayRef<int64_t> sources,
                unsigned factor) override {
    return builder.create<comm::PermuteOp>(
        loc, value.getType(), value, parent.mesh.symbol.getValue(),
        AxisListAttr::get(value.getContext(), axes[factor]), sources);
  }
  bool doFactorsMeet() const override {
    return rule.meet && isSplit(rule.meet->first) &&
           axes[rule.meet->first] == axes[rule.meet->second];
  }

private:
  FunctionLocalizer &parent;
  const ShardingRule &rule;
  const FactorAxes &axes;
  Location loc;
};

} // namespace heddle

PaddingOfDims FunctionLocalizer::unknown(RankedTensorType type,
                                         ShardingAttr sharding) const {
  PaddingOfDims padding;
  for (auto [size, dim] : llvm::zip(type.getShape(), sharding.getDims()))
    padding.push_back(isPadded(size, dim.getAxes(), mesh.mesh)
                          ? Padding::Unknown
                          : Padding::Zero);
  return padding;
}

LogicalResult FunctionLocalizer::expectDims(Operation *op, Value value,
                                            ShardingAttr needed,
                                            bool mayBePartial) {
  ShardingAttr got = shardings.lookup(value);
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  if (!got)
    got = ShardingAttr::getReplicated(mesh.symbol, rank);
  if (!needed)
    needed = ShardingAttr::getReplicated(mesh.symbol, rank);
  bool isUnfinished = got.isPartial() && !needed.isPartial() && !mayBePartial;
  if (got.getDims() == needed.getDims() && !isUnfinished)
    return success();
  auto diag = op->emitOpError()
              << "expected an operand split as " << needed.withoutPartial()
              << ", got " << (isUnfinished ? got : got.withoutPartial())
              << "; run heddle-insert-reshards first";
  if (Operation *source = value.getDefiningOp())
    diag.attachNote(source->getLoc()) << "made here";
  return diag;
}

/// Appends a local argument for each global one. `finish` erases the global
/// ones.
LogicalResult FunctionLocalizer::addArguments() {
  Block &body = function.getBody().front();
  for (BlockArgument argument : llvm::to_vector(body.getArguments())) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    auto sharding = function.getArgAttrOfType<ShardingAttr>(
        argument.getArgNumber(), kShardingAttrName);
    if (!type || !sharding) {
      locals[argument] =
          body.addArgument(argument.getType(), argument.getLoc());
      continue;
    }
    if (sharding.getRank() != type.getRank())
      return emitError(argument.getLoc())
             << "expected a sharding of " << type.getRank()
             << " dimensions, got " << sharding;
    for (const Axes &axes : getDimensions(sharding))
      for (StringAttr axis : axes)
        if (!mesh.mesh.getAxisSize(axis))
          return emitError(argument.getLoc())
                 << "expected an axis of " << mesh.mesh << ", got " << axis;
    function.setArgAttr(argument.getArgNumber(), kGlobalTypeAttrName,
                        TypeAttr::get(type));
    set(argument,
        body.addArgument(sharding.getLocalType(type, mesh.mesh),
                         argument.getLoc()),
        sharding, unknown(type, sharding));
  }
  return success();
}

Value FunctionLocalizer::mask(Value local, ShardingAttr sharding,
                              RankedTensorType global, ArrayRef<int64_t> dims,
                              PaddingValue value) {
  SmallVector<Value> offsets;
  SmallVector<int64_t> sizes;
  for (int64_t dim : dims) {
    offsets.push_back(positions.getOffset(sharding.getDims()[dim].getAxes(),
                                          global.getDimSize(dim)));
    sizes.push_back(global.getDimSize(dim));
  }
  return builder.create<MaskPaddingOp>(local.getLoc(), local.getType(), local,
                                       offsets, dims, sizes, value);
}

ShardingAttr FunctionLocalizer::storageOf(FlatSymbolRefAttr symbol) {
  auto variable = tables.lookupNearestSymbolFrom<VariableOp>(function, symbol);
  ShardingAttr storage = variable ? variable.getStorageAttr() : ShardingAttr();
  return storage ? storage
                 : ShardingAttr::getReplicated(
                       mesh.symbol, variable.getTensorType().getRank());
}

void FunctionLocalizer::localizeLoad(LoadOp load) {
  auto type = cast<RankedTensorType>(load.getType());
  ShardingAttr storage = storageOf(load.getVariableAttr());
  Value local = builder.create<LoadOp>(load.getLoc(),
                                       storage.getLocalType(type, mesh.mesh),
                                       load.getVariableAttr());
  set(load.getResult(), local, storage,
      PaddingOfDims(type.getRank(), Padding::Zero));
}

LogicalResult FunctionLocalizer::localizeStore(StoreOp store) {
  ShardingAttr storage = storageOf(store.getVariableAttr());
  if (failed(expectDims(store, store.getValue(), storage)))
    return failure();
  ShardingAttr got = shardings.lookup(store.getValue());
  if (storage.isPartial() &&
      (!got || got.getPartialAxes() != storage.getPartialAxes()))
    return store.emitOpError()
           << "expected a value that is " << storage << " as its variable, got "
           << (got ? got
                   : ShardingAttr::getReplicated(mesh.symbol,
                                                 storage.getRank()))
           << "; run heddle-insert-reshards first";
  Value value = locals[store.getValue()];
  auto type = cast<RankedTensorType>(store.getValue().getType());
  SmallVector<int64_t> dims;
  for (auto [i, padding] : llvm::enumerate(paddings[store.getValue()]))
    if (padding != Padding::Zero)
      dims.push_back(i);
  if (!dims.empty())
    value = mask(value, storage, type, dims, PaddingValue::Zero);
  builder.create<StoreOp>(store.getLoc(), value, store.getVariableAttr());
  return success();
}

LogicalResult FunctionLocalizer::localizeReshard(ReshardOp reshard) {
  if (failed(expectDims(reshard, reshard.getX(), reshard.getFrom(),
                        /*mayBePartial=*/true)))
    return failure();
  PaddingOfDims padding = paddings[reshard.getX()];
  FailureOr<Value> local =
      buildReshard(builder, positions, mesh, sequences, reshard,
                   locals[reshard.getX()], padding);
  if (failed(local))
    return failure();
  set(reshard.getResult(), *local, reshard.getTo(), std::move(padding));
  return success();
}

/// Returns the sharding of a result, extended by the partial sums that pass
/// through the op.
ShardingAttr FunctionLocalizer::withPassedSums(Operation *op,
                                               const ShardingRule &rule,
                                               ShardingAttr own) {
  if (!rule.defersPartialSums)
    return own;
  llvm::SmallDenseSet<StringAttr, 2> passed;
  for (Value operand : op->getOperands())
    if (ShardingAttr got = shardings.lookup(operand); got && got.isPartial())
      passed.insert(got.getPartialAxes().begin(), got.getPartialAxes().end());
  if (passed.empty())
    return own;
  passed.insert(own.getPartialAxes().begin(), own.getPartialAxes().end());
  Axes partial;
  for (MeshAxisAttr axis : mesh.mesh.getAxes())
    if (passed.contains(axis.getName()))
      partial.push_back(axis.getName());
  return makeSharding(mesh, getDimensions(own), partial);
}

LogicalResult FunctionLocalizer::localizeByRule(Operation *op) {
  ShardingRule rule = getRule(op);
  FailureOr<FactorAxes> axes = readFactorAxes(op, rule, mesh.mesh);
  if (failed(axes))
    return failure();

  SmallVector<Value> operands;
  SmallVector<PaddingOfDims> padding;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    operands.push_back(locals.lookup(operand));
    padding.push_back(paddings.lookup(operand));
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type)
      continue;
    padding.back().resize(type.getRank(), Padding::Zero);
    if (failed(expectDims(op, operand, getOperandSharding(rule, *axes, i, mesh),
                          rule.defersPartialSums)))
      return failure();
  }
  FailureOr<SmallVector<OperandMask>> masks =
      findMasks(op, rule, *axes, mesh.mesh, padding);
  if (failed(masks))
    return failure();
  for (const OperandMask &wanted : *masks) {
    unsigned i = wanted.operand;
    operands[i] = mask(operands[i], getOperandSharding(rule, *axes, i, mesh),
                       cast<RankedTensorType>(op->getOperand(i).getType()),
                       wanted.dims, wanted.value);
    for (int64_t dim : wanted.dims)
      padding[i][dim] =
          wanted.value == PaddingValue::Zero ? Padding::Zero : Padding::Finite;
  }

  SmallVector<Type> types;
  for (auto [i, type] : llvm::enumerate(op->getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    types.push_back(tensor ? getResultSharding(rule, *axes, i, mesh)
                                 .getLocalType(tensor, mesh.mesh)
                           : type);
  }
  SmallVector<Value> results;
  Block::iterator at = builder.getInsertionPoint();
  Operation *before =
      at == builder.getInsertionBlock()->begin() ? nullptr : &*std::prev(at);
  OpLocalizer localizer(*this, rule, *axes, operands, types, op->getLoc());
  // A rule without factors splits nothing, so there is nothing to localize but
  // the types. Such a rule comes mostly of dynamic shapes.
  if (auto shardable = dyn_cast<ShardingRuleOpInterface>(op);
      shardable && !rule.factors.empty()) {
    FailureOr<SmallVector<Value>> own = shardable.localize(localizer);
    if (failed(own))
      return failure();
    results = std::move(*own);
  } else {
    results = localizeByCloning(op, localizer);
  }
  Block::iterator first = before ? std::next(Block::iterator(before))
                                 : builder.getInsertionBlock()->begin();
  auto made = llvm::make_range(first, builder.getInsertionPoint());
  if (failed(localizeCaptured(op, made)))
    return failure();
  addExchangeRemark(op, made, mesh, sequences, remarks);
  auto inferred = inferPadding(op, rule, *axes, mesh.mesh, padding);
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    if (results[i].getType() != types[i])
      return op->emitOpError() << "expected its localization to give "
                               << types[i] << ", got " << results[i].getType();
    ShardingAttr sharding;
    if (isa<RankedTensorType>(result.getType()))
      sharding =
          withPassedSums(op, rule, getResultSharding(rule, *axes, i, mesh));
    set(result, results[i], sharding, std::move(inferred[i]));
  }
  return success();
}

/// Replaces the global values that the regions of an op's localization `made`
/// read from outside. No loop of the op runs over them, so each device needs
/// them whole.
LogicalResult FunctionLocalizer::localizeCaptured(
    Operation *op, llvm::iterator_range<Block::iterator> made) {
  if (op->getNumRegions() == 0)
    return success();
  for (Operation &local : made)
    // The regions are clones, so a global value that they use comes from
    // outside. It may be defined in a region that does not enclose the clone.
    for (Region &region : local.getRegions()) {
      WalkResult status = region.walk([&](Operation *inner) {
        for (OpOperand &operand : inner->getOpOperands()) {
          auto known = locals.find(operand.get());
          if (known == locals.end())
            continue;
          if (isa<RankedTensorType>(operand.get().getType()) &&
              failed(expectDims(op, operand.get(), ShardingAttr())))
            return WalkResult::interrupt();
          operand.set(known->second);
        }
        return WalkResult::advance();
      });
      if (status.wasInterrupted())
        return failure();
    }
  return success();
}

LogicalResult FunctionLocalizer::localizeReturn(func::ReturnOp op) {
  SmallVector<Value> results;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    results.push_back(locals.lookup(operand));
    if (!isa<RankedTensorType>(operand.getType()))
      continue;
    if (failed(expectDims(
            op, operand,
            function.getResultAttrOfType<ShardingAttr>(i, kShardingAttrName))))
      return failure();
    function.setResultAttr(i, kGlobalTypeAttrName,
                           TypeAttr::get(operand.getType()));
  }
  builder.create<func::ReturnOp>(op->getLoc(), results);
  return success();
}

LogicalResult FunctionLocalizer::localize(Operation *op) {
  if (auto load = dyn_cast<LoadOp>(op))
    return localizeLoad(load), success();
  if (auto store = dyn_cast<StoreOp>(op))
    return localizeStore(store);
  if (auto reshard = dyn_cast<ReshardOp>(op))
    return localizeReshard(reshard);
  if (auto end = dyn_cast<func::ReturnOp>(op))
    return localizeReturn(end);
  if (auto call = dyn_cast<func::CallOp>(op))
    return localizeCall(call);
  if (isControlFlow(op))
    return localizeControlFlow(op);
  return localizeByRule(op);
}

void FunctionLocalizer::finish() {
  for (Operation *op : llvm::reverse(originals))
    op->erase();
  Block &body = function.getBody().front();
  body.eraseArguments(0, body.getNumArguments() / 2);
  function.setFunctionType(
      FunctionType::get(function.getContext(), body.getArgumentTypes(),
                        TypeRange(body.getTerminator()->getOperands())));
  function.walk([](Operation *op) {
    if (isa<func::FuncOp>(op))
      return;
    for (StringRef name :
         {kFactorsAttrName, kShardingAttrName, kPriorityAttrName})
      op->removeAttr(name);
  });
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.removeArgAttr(i, kPriorityAttrName);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    function.removeResultAttr(
        i, StringAttr::get(function.getContext(), kPriorityAttrName));
}

LogicalResult FunctionLocalizer::run() {
  for (Operation &op : function.getBody().front())
    originals.push_back(&op);
  if (failed(addArguments()))
    return failure();
  for (Operation *op : originals) {
    builder.setInsertionPoint(op);
    if (failed(localize(op)))
      return failure();
  }
  finish();
  remarks.emit(function->getParentOfType<ModuleOp>());
  return success();
}
