//===- InsertReshards.cpp - Makes each mismatch explicit ------------------===//

#include "PartialSums.h"
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
  ReshardInserter(func::FuncOp function, MeshRef mesh)
      : function(function), mesh(mesh) {}

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
  Value reshard(Value value, ShardingAttr from, ShardingAttr to, Operation *at);

  func::FuncOp function;
  MeshRef mesh;
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

/// Number of devices that hold different parts: the fewer, the more each moves.
static int64_t countParts(ShardingAttr sharding, MeshRef mesh) {
  int64_t parts = 1;
  for (AxisListAttr dim : sharding.getDims())
    parts *= mesh.getSize(dim.getAxes());
  return parts;
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
  llvm::MapVector<ShardingAttr, SmallVector<OpOperand *>> targets;
  for (auto [operand, to] : uses)
    targets[to].push_back(operand);
  // A partial sum is reduced once, into the least split of the targets, from
  // which the others follow without communication or with less.
  Value source = value;
  ShardingAttr reduced;
  if (from.isPartial() && targets.size() > 1) {
    for (auto &[to, operands] : targets)
      if (!to.isPartial() &&
          (!reduced || countParts(to, mesh) < countParts(reduced, mesh)))
        reduced = to;
  }
  if (reduced) {
    source = reshard(value, from, reduced, uses.front().first->getOwner());
    for (OpOperand *operand : targets[reduced])
      operand->set(source);
    from = reduced;
    targets.erase(reduced);
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
  void runOnOperation() override {
    MeshRef mesh = getMesh(getOperation());
    if (!mesh)
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(ReshardInserter(function, mesh).run()))
        return signalPassFailure();
  }
};
} // namespace
