//===- InsertReshards.cpp - Makes each mismatch explicit ------------------===//

#include "PartialSums.h"
#include "ReshardSequence.h"
#include "heddle/Shard/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_INSERTRESHARDSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

class ReshardInserter {
public:
  ReshardInserter(func::FuncOp function, MeshRef mesh,
                  ReshardSequences &sequences)
      : function(function), mesh(mesh), sequences(sequences) {}

  LogicalResult run();

private:
  LogicalResult readFactors();
  /// The shardings that values have when their ops have made them.
  LogicalResult findProduced();
  /// What each operand needs.
  LogicalResult findNeeds();
  LogicalResult needOf(OpOperand &operand, ShardingAttr &need);
  void insert();
  /// All uses of a value that need something else than it is.
  void insertFor(Value value,
                 ArrayRef<std::pair<OpOperand *, ShardingAttr>> uses);
  using Targets = llvm::MapVector<ShardingAttr, SmallVector<OpOperand *>>;
  /// The target from which the others are made, if that is cheaper than making
  /// each from the value.
  ShardingAttr chooseHub(Value value, const Targets &targets);
  Value reshard(Value value, ShardingAttr from, ShardingAttr to, Operation *at);

  func::FuncOp function;
  MeshRef mesh;
  ReshardSequences &sequences;
  DenseMap<Operation *, std::pair<ShardingRule, FactorAxes>> factors;
  DenseMap<Value, ShardingAttr> produced;
  llvm::MapVector<Value, SmallVector<std::pair<OpOperand *, ShardingAttr>>>
      mismatches;
  std::optional<PartialSums> partialSums;
};

} // namespace

static LogicalResult expectRank(Operation *op, ShardingAttr sharding,
                                Value value) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  if (sharding && sharding.getRank() == rank)
    return success();
  auto diag = op->emitOpError()
              << "expected a sharding of " << rank << " dimensions";
  if (sharding)
    return diag << ", got " << sharding;
  return diag << ", got none: run heddle-propagate-shardings before";
}

LogicalResult ReshardInserter::readFactors() {
  for (Operation &op : function.getBody().front()) {
    ShardingRule rule = getRule(&op);
    FailureOr<FactorAxes> axes = readFactorAxes(&op, rule, mesh.mesh);
    if (failed(axes))
      return failure();
    factors[&op] = {std::move(rule), std::move(*axes)};
  }
  return success();
}

LogicalResult ReshardInserter::findProduced() {
  Block &body = function.getBody().front();
  for (BlockArgument argument : body.getArguments()) {
    if (!isa<RankedTensorType>(argument.getType()))
      continue;
    auto given = function.getArgAttrOfType<ShardingAttr>(
        argument.getArgNumber(), kShardingAttrName);
    if (failed(expectRank(function, given, argument)))
      return failure();
    produced[argument] = given;
  }
  for (Operation &op : body) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(
          load, load.getVariableAttr());
      ShardingAttr storage =
          variable ? variable.getStorageAttr() : ShardingAttr();
      if (failed(expectRank(&op, storage, load.getResult())))
        return failure();
      produced[load.getResult()] = storage;
      continue;
    }
    if (auto reshard = dyn_cast<ReshardOp>(op)) {
      produced[reshard.getResult()] = reshard.getTo();
      continue;
    }
    auto &[rule, axes] = factors[&op];
    for (auto [i, result] : llvm::enumerate(op.getResults())) {
      if (!isa<RankedTensorType>(result.getType()))
        continue;
      ShardingAttr own = getResultSharding(rule, axes, i, mesh);
      ArrayRef<StringAttr> partial = partialSums->getPartialAxes(result);
      if (!partial.empty())
        own = makeSharding(mesh, getDimensions(own), partial);
      produced[result] = own;
    }
  }
  return success();
}

LogicalResult ReshardInserter::needOf(OpOperand &operand, ShardingAttr &need) {
  Operation *op = operand.getOwner();
  if (auto store = dyn_cast<StoreOp>(op)) {
    auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(
        store, store.getVariableAttr());
    need = variable ? variable.getStorageAttr() : ShardingAttr();
    return expectRank(op, need, operand.get());
  }
  if (isa<func::ReturnOp>(op)) {
    need = function.getResultAttrOfType<ShardingAttr>(
        operand.getOperandNumber(), kShardingAttrName);
    return expectRank(function, need, operand.get());
  }
  if (auto reshard = dyn_cast<ReshardOp>(op)) {
    need = reshard.getFrom();
    return success();
  }
  auto &[rule, axes] = factors[op];
  need = getOperandSharding(rule, axes, operand.getOperandNumber(), mesh);
  if (partialSums->isKept(operand.get()))
    need = makeSharding(mesh, getDimensions(need),
                        partialSums->getPartialAxes(operand.get()));
  return success();
}

LogicalResult ReshardInserter::findNeeds() {
  for (Operation &op : function.getBody().front())
    for (OpOperand &operand : op.getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType()))
        continue;
      ShardingAttr need;
      if (failed(needOf(operand, need)))
        return failure();
      if (need != produced[operand.get()])
        mismatches[operand.get()].emplace_back(&operand, need);
    }
  return success();
}

Value ReshardInserter::reshard(Value value, ShardingAttr from, ShardingAttr to,
                               Operation *at) {
  if (from == to)
    return value;
  OpBuilder builder(at);
  return builder.create<ReshardOp>(value.getLoc(), value.getType(), value, from,
                                   to);
}

ShardingAttr ReshardInserter::chooseHub(Value value, const Targets &targets) {
  if (targets.size() < 2)
    return {};
  ShardingAttr from = produced[value];
  auto type = cast<RankedTensorType>(value.getType());
  auto cost = [&](ShardingAttr source, ShardingAttr to) {
    return sequences.getCost(type, source, to).seconds;
  };
  double cheapest = 0;
  for (auto &[to, operands] : targets)
    cheapest += cost(from, to);
  ShardingAttr best;
  for (auto &[hub, hubOperands] : targets) {
    if (hub.isPartial())
      continue;
    double sum = cost(from, hub);
    for (auto &[to, operands] : targets)
      if (to != hub)
        sum += cost(to.isPartial() ? from : hub, to);
    // A partial sum is reduced once, if that makes no difference.
    if (sum < cheapest || (!best && from.isPartial() && sum == cheapest)) {
      best = hub;
      cheapest = sum;
    }
  }
  return best;
}

void ReshardInserter::insertFor(
    Value value, ArrayRef<std::pair<OpOperand *, ShardingAttr>> uses) {
  ShardingAttr from = produced[value];
  if (value.getDefiningOp<LoadOp>()) {
    // Anew for each use: a gathered parameter must not live on.
    for (auto [operand, to] : uses)
      operand->set(reshard(value, from, to, operand->getOwner()));
    return;
  }
  Targets targets;
  for (auto [operand, to] : uses)
    targets[to].push_back(operand);
  Value source = value;
  if (ShardingAttr hub = chooseHub(value, targets)) {
    source = reshard(value, from, hub, uses.front().first->getOwner());
    for (OpOperand *operand : targets[hub])
      operand->set(source);
    from = hub;
    targets.erase(hub);
  }
  for (auto &[to, operands] : targets) {
    bool stillPartial = to.isPartial();
    Value result = reshard(stillPartial ? value : source,
                           stillPartial ? produced[value] : from, to,
                           operands.front()->getOwner());
    for (OpOperand *operand : operands)
      operand->set(result);
  }
}

void ReshardInserter::insert() {
  for (auto &[value, uses] : mismatches)
    insertFor(value, uses);
  for (auto &[op, entry] : factors) {
    SmallVector<Attribute> shardings;
    for (Value result : op->getResults())
      if (auto known = produced.find(result); known != produced.end())
        shardings.push_back(known->second);
    if (isa<ReshardOp>(op) || shardings.empty())
      continue;
    op->setAttr(kShardingAttrName,
                shardings.size() == 1
                    ? shardings[0]
                    : Attribute(ArrayAttr::get(op->getContext(), shardings)));
  }
}

LogicalResult ReshardInserter::run() {
  if (failed(readFactors()))
    return failure();
  partialSums.emplace(
      function.getBody().front(), mesh,
      [&](Operation *op, const ShardingRule &) { return factors[op].second; });
  if (failed(findProduced()) || failed(findNeeds()))
    return failure();
  insert();
  return success();
}

namespace {
struct InsertReshardsPass
    : heddle::impl::InsertReshardsPassBase<InsertReshardsPass> {
  using Base::Base;

  void runOnOperation() override {
    MeshRef mesh = getMesh(getOperation());
    if (!mesh)
      return;
    auto sequences = ReshardSequences::create(getOperation(), mesh, cluster);
    if (failed(sequences))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      if (failed(ReshardInserter(function, mesh, *sequences).run()))
        return signalPassFailure();
    }
  }
};
} // namespace
