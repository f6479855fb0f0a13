//===- InsertReshards.cpp - Makes each mismatch explicit ------------------===//

#include "../Explain/ReshardRemarks.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/Pins.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "heddle/Sharding/StatedFactors.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/RegionUtils.h"

namespace heddle {
#define GEN_PASS_DEF_INSERTRESHARDSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

class ReshardInserter {
public:
  ReshardInserter(func::FuncOp function, ReshardSequences &sequences)
      : function(function), mesh(sequences.getMesh()), sequences(sequences) {}

  LogicalResult run();

private:
  LogicalResult readFactors();
  /// Records the shardings of the values that control flow and calls produce,
  /// and of the operands that they need.
  LogicalResult readCarried(Operation *op);
  LogicalResult readCall(func::CallOp call);
  const PartialSums &sumsOf(Value value) {
    return partialSums.find(value.getParentBlock())->second;
  }
  /// Finds the sharding of each op's results.
  LogicalResult findProduced();
  LogicalResult findProduced(Operation *op);
  /// Finds the operands whose sharding differs from the one that their op
  /// needs.
  LogicalResult findNeeds();
  LogicalResult needOf(OpOperand &operand, ShardingAttr &need);
  void insert();
  /// Finds the values that are loaded from a variable, or such a value cast to
  /// a narrower type, and no partial sums.
  void findParameters();
  bool isParameter(Value value) const { return parameters.contains(value); }
  /// Inserts a reshard at the uses of parameters and their casts, so that a
  /// gathered parameter is freed after its use. Uses in one block share a
  /// reshard if hardly any other parameter is gathered between them. So a tied
  /// table is gathered once for the head's forward and backward product.
  void insertForParameters();
  /// Inserts reshards for all uses of `value` that need another sharding.
  void insertFor(Value value,
                 ArrayRef<std::pair<OpOperand *, ShardingAttr>> uses);
  using Targets = llvm::MapVector<ShardingAttr, SmallVector<OpOperand *>>;
  /// Returns the target sharding from which the other targets are made. Null if
  /// it is as cheap to make each target from the value itself.
  ShardingAttr chooseHub(Value value, const Targets &targets);
  Value reshard(Value value, ShardingAttr from, ShardingAttr to, Operation *at);

  func::FuncOp function;
  MeshRef mesh;
  ReshardSequences &sequences;
  SymbolTableCollection tables;
  OpFactors factors;
  DenseMap<Value, ShardingAttr> produced;
  llvm::MapVector<Value, SmallVector<std::pair<OpOperand *, ShardingAttr>>>
      mismatches;
  /// The shardings in which control flow and calls need the operands that they
  /// pass on.
  DenseMap<OpOperand *, ShardingAttr> passedOn;
  DenseSet<Value> parameters;
  /// One entry a block, because partial sums do not leave their block.
  std::map<Block *, PartialSums> partialSums;
};

/// A parameter stays gathered until its next use if at most this part of its
/// bytes is gathered in between.
constexpr int64_t kLittle = 8;

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
  FailureOr<OpFactors> read = readOpFactors(function, mesh.mesh);
  if (failed(read))
    return failure();
  factors = std::move(*read);
  forEachBlock(function, [&](Block &block) {
    partialSums.try_emplace(&block,
                            getStatedPartialSums(block, mesh, factors, tables));
  });
  return success();
}

LogicalResult ReshardInserter::readCarried(Operation *op) {
  FailureOr<SmallVector<CarriedValue>> carried = getCarriedValues(op);
  if (failed(carried))
    return failure();
  auto shardings = op->getAttrOfType<ArrayAttr>(kCarriedAttrName);
  if (carried->size() != (shardings ? shardings.size() : 0))
    return op->emitOpError()
           << "expected " << kCarriedAttrName << " with " << carried->size()
           << " shardings: run heddle-propagate-shardings before";
  for (auto [i, entry] : llvm::enumerate(*carried)) {
    auto sharding = dyn_cast<ShardingAttr>(shardings[i]);
    if (failed(expectRank(op, sharding, entry.values.front())))
      return failure();
    for (Value value : entry.values)
      produced[value] = sharding;
    for (OpOperand *source : entry.sources)
      passedOn[source] = sharding;
  }
  return success();
}

LogicalResult ReshardInserter::readCall(func::CallOp call) {
  FailureOr<func::FuncOp> callee = getCallee(call);
  if (failed(callee))
    return failure();
  for (OpOperand &operand : call->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    auto sharding = callee->getArgAttrOfType<ShardingAttr>(
        operand.getOperandNumber(), kShardingAttrName);
    if (failed(expectRank(call, sharding, operand.get())))
      return failure();
    passedOn[&operand] = sharding;
  }
  for (OpResult result : call.getResults()) {
    if (!isa<RankedTensorType>(result.getType()))
      continue;
    auto sharding = callee->getResultAttrOfType<ShardingAttr>(
        result.getResultNumber(), kShardingAttrName);
    if (failed(expectRank(call, sharding, result)))
      return failure();
    produced[result] = sharding;
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
  LogicalResult status = success();
  forEachOp(function, [&](Operation *op) {
    if (succeeded(status))
      status = findProduced(op);
  });
  return status;
}

LogicalResult ReshardInserter::findProduced(Operation *op) {
  if (isControlFlow(op))
    return readCarried(op);
  if (auto call = dyn_cast<func::CallOp>(op))
    return readCall(call);
  if (auto load = dyn_cast<LoadOp>(op)) {
    ShardingAttr storage = getStorage(load, tables);
    if (failed(expectRank(op, storage, load.getResult())))
      return failure();
    produced[load.getResult()] = storage;
    return success();
  }
  if (auto reshard = dyn_cast<ReshardOp>(op)) {
    produced[reshard.getResult()] = reshard.getTo();
    return success();
  }
  auto &[rule, axes] = factors[op];
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    if (!isa<RankedTensorType>(result.getType()))
      continue;
    ShardingAttr own = getResultSharding(rule, axes, i, mesh);
    ArrayRef<StringAttr> partial = sumsOf(result).getPartialAxes(result);
    if (!partial.empty())
      own = makeSharding(mesh, getDimensions(own), partial);
    produced[result] = own;
  }
  return success();
}

LogicalResult ReshardInserter::needOf(OpOperand &operand, ShardingAttr &need) {
  Operation *op = operand.getOwner();
  if (auto known = passedOn.find(&operand); known != passedOn.end()) {
    need = known->second;
    return success();
  }
  if (isa<StoreOp>(op)) {
    need = getStorage(op, tables);
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
  if (const PartialSums &sums = sumsOf(operand.get());
      sums.isKept(operand.get()))
    need = makeSharding(mesh, getDimensions(need),
                        sums.getPartialAxes(operand.get()));
  return success();
}

LogicalResult ReshardInserter::findNeeds() {
  LogicalResult status = success();
  forEachOp(function, [&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (failed(status) || !isa<RankedTensorType>(operand.get().getType()))
        continue;
      ShardingAttr need;
      status = needOf(operand, need);
      if (succeeded(status) && need != produced[operand.get()])
        mismatches[operand.get()].emplace_back(&operand, need);
    }
    // A tensor that the region of an op reads at arbitrary positions must be
    // whole on every device.
    if (isControlFlow(op))
      return;
    for (Region &region : op->getRegions())
      visitUsedValuesDefinedAbove(region, [&](OpOperand *operand) {
        auto type = dyn_cast<RankedTensorType>(operand->get().getType());
        if (!type)
          return;
        auto whole = ShardingAttr::getReplicated(mesh.symbol, type.getRank());
        if (produced.lookup(operand->get()) != whole)
          mismatches[operand->get()].emplace_back(operand, whole);
      });
  });
  return status;
}

Value ReshardInserter::reshard(Value value, ShardingAttr from, ShardingAttr to,
                               Operation *at) {
  if (from == to)
    return value;
  // The reshard stands in the value's block, so that it does not run in every
  // iteration of a loop. A parameter, or its cast, is resharded at its use.
  if (!isParameter(value))
    at = value.getParentBlock()->findAncestorOpInBlock(*at);
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
    // At equal cost a partial sum gets a hub: it is then reduced once, for all
    // targets.
    if (sum < cheapest || (!best && from.isPartial() && sum == cheapest)) {
      best = hub;
      cheapest = sum;
    }
  }
  return best;
}

/// Returns the op in front of which one reshard of `value` precedes all `uses`:
/// the first use if all uses are in one block, otherwise the op in the value's
/// block that contains the first use.
static Operation *getPlaceBefore(Value value, ArrayRef<OpOperand *> uses) {
  Operation *first = uses.front()->getOwner();
  if (llvm::all_of(uses, [&](OpOperand *use) {
        return use->getOwner()->getBlock() == first->getBlock();
      }))
    return first;
  return value.getParentBlock()->findAncestorOpInBlock(*first);
}

/// Returns the op itself or, for an op in the body of a structured op, that
/// structured op. Nothing is resharded within such bodies.
static Operation *getPartitionedOp(Operation *op) {
  while (!isa<func::FuncOp>(op->getParentOp()) &&
         !isControlFlow(op->getParentOp()))
    op = op->getParentOp();
  return op;
}

void ReshardInserter::insertFor(
    Value value, ArrayRef<std::pair<OpOperand *, ShardingAttr>> uses) {
  ShardingAttr from = produced[value];
  Targets targets;
  SmallVector<OpOperand *> all;
  for (auto [operand, to] : uses) {
    targets[to].push_back(operand);
    all.push_back(operand);
  }
  Value source = value;
  if (ShardingAttr hub = chooseHub(value, targets)) {
    source = reshard(value, from, hub, getPlaceBefore(value, all));
    for (OpOperand *operand : targets[hub])
      operand->set(source);
    from = hub;
    targets.erase(hub);
  }
  for (auto &[to, operands] : targets) {
    bool stillPartial = to.isPartial();
    Value result = reshard(stillPartial ? value : source,
                           stillPartial ? produced[value] : from, to,
                           getPlaceBefore(value, operands));
    for (OpOperand *operand : operands)
      operand->set(result);
  }
}

void ReshardInserter::findParameters() {
  for (auto &[value, uses] : mismatches)
    if (Operation *op = value.getDefiningOp();
        op && (isa<LoadOp>(op) || getNarrowedLoad(op)) &&
        !produced[value].isPartial())
      parameters.insert(value);
}

void ReshardInserter::insertForParameters() {
  struct Use {
    OpOperand *operand;
    ShardingAttr to;
    Operation *place;
  };
  struct Gathered {
    Value value;
    Block *block;
    int64_t bytesBefore; ///< of all parameters that were gathered before
  };
  DenseMap<Operation *, SmallVector<Use>> usesAt;
  for (auto &[value, uses] : mismatches)
    if (isParameter(value))
      for (auto [operand, to] : uses) {
        Operation *place = getPartitionedOp(operand->getOwner());
        usesAt[place].push_back({operand, to, place});
      }

  DenseMap<std::pair<Value, ShardingAttr>, Gathered> gathered;
  int64_t bytesBefore = 0;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto found = usesAt.find(op);
    if (found == usesAt.end())
      return;
    for (Use &use : found->second) {
      Value value = use.operand->get();
      int64_t bytes = getBytes(value.getType());
      Gathered &last = gathered[{value, use.to}];
      if (!last.value || last.block != op->getBlock() ||
          bytesBefore - last.bytesBefore > bytes / kLittle) {
        last.value = reshard(value, produced[value], use.to, op);
        bytesBefore += bytes;
      }
      last.block = op->getBlock();
      last.bytesBefore = bytesBefore;
      use.operand->set(last.value);
    }
  });
}

void ReshardInserter::insert() {
  // Before any reshard stands between a load and its cast.
  findParameters();
  insertForParameters();
  for (auto &[value, uses] : mismatches)
    if (!isParameter(value))
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
  if (failed(readFactors()) || failed(findProduced()) || failed(findNeeds()))
    return failure();
  insert();
  return success();
}

namespace {
struct InsertReshardsPass
    : heddle::impl::InsertReshardsPassBase<InsertReshardsPass> {
  using Base::Base;

  void runOnOperation() override {
    auto found = ReshardSequences::ofGlobalProgram(getOperation(), cluster);
    if (failed(found))
      return signalPassFailure();
    if (!*found)
      return;
    ReshardSequences &sequences = **found;
    if (failed(verifyReshards(sequences.getMesh())))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      if (failed(ReshardInserter(function, sequences).run()))
        return signalPassFailure();
      if (remarkBytes >= 0)
        emitReshardRemarks(function, sequences.getMesh(), sequences,
                           remarkBytes);
    }
  }

private:
  /// Checks the reshards that the input program contains.
  LogicalResult verifyReshards(MeshRef mesh) {
    WalkResult status = getOperation().walk([&](ReshardOp reshard) {
      for (ShardingAttr sharding : {reshard.getFrom(), reshard.getTo()})
        if (failed(verifySharding(reshard.getLoc(), sharding, reshard.getType(),
                                  mesh)))
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    return failure(status.wasInterrupted());
  }
};
} // namespace
