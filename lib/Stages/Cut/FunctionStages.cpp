//===- FunctionStages.cpp - The stage of every op of a program ------------===//

#include "FunctionStages.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;

FunctionStages::FunctionStages(func::FuncOp function, const Pipeline &pipeline,
                               VariableOwners &owners, bool decidesOwners,
                               bool splitsBackward)
    : function(function), pipeline(pipeline), owners(owners),
      decidesOwners(decidesOwners), splitsBackward(splitsBackward) {}

llvm::SetVector<Operation *> FunctionStages::getReaders(Op op) const {
  llvm::SetVector<Op> readers;
  Block *body = op->getBlock();
  for (Operation *user : op->getUsers())
    if (Operation *reader = body->findAncestorOpInBlock(*user);
        reader && !reader->hasTrait<OpTrait::IsTerminator>())
      readers.insert(reader);
  return readers;
}

llvm::SetVector<Operation *> FunctionStages::getMakers(Op op) const {
  llvm::SetVector<Op> makers;
  for (Value input : getInputs(op))
    if (Operation *maker = input.getDefiningOp(); maker && !isRepeated(maker))
      makers.insert(maker);
  return makers;
}

llvm::SetVector<StringAttr> FunctionStages::getVariables(Op op) const {
  llvm::SetVector<StringAttr> variables;
  for (Value input : getInputs(op))
    if (Operation *maker = input.getDefiningOp(); maker && isRepeated(maker))
      for (StringAttr variable : variablesOf.lookup(maker))
        variables.insert(variable);
  return variables;
}

bool FunctionStages::isPinned(Op op) const {
  return op->hasAttr(kStageAttrName);
}

//===----------------------------------------------------------------------===//
// Kinds of ops
//===----------------------------------------------------------------------===//

LogicalResult FunctionStages::findForward() {
  for (Operation &op : function.getBody().front().without_terminator())
    ops.push_back(&op);
  SmallVector<Op> pending;
  auto add = [&](Op op) {
    if (op && forward.insert(op))
      pending.push_back(op);
  };
  Operation *end = function.getBody().front().getTerminator();
  for (OpOperand &operand : end->getOpOperands()) {
    auto role = function.getResultAttrOfType<PortRoleAttr>(
        operand.getOperandNumber(), kRoleAttrName);
    if (!role || role.getRole() != PortRole::Gradient)
      add(operand.get().getDefiningOp());
  }
  for (Op op : ops) {
    auto store = dyn_cast<StoreOp>(op);
    if (!store)
      continue;
    std::optional<StageSum> sum = findStageSum(store);
    auto variable =
        tables.lookupNearestSymbolFrom<VariableOp>(op, store.getVariableAttr());
    if (!sum || !variable.isSumOfStep())
      return store.emitOpError()
             << "cannot be cut into stages: expected a step to change only "
                "sums over its micro-batches, by store(load + x), got a store "
                "of "
             << store.getVariableAttr();
    if (variable.getRole() == VariableRole::Loss)
      add(op);
  }
  while (!pending.empty())
    for (Value input : getInputs(pending.pop_back_val()))
      add(input.getDefiningOp());
  return success();
}

/// Returns whether computing the result again costs no more than receiving it
/// from another stage.
static bool isCheap(Operation *op) {
  constexpr int64_t kFlopsPerElement = 4;
  auto working = dyn_cast<WorkOpInterface>(op);
  if (!working)
    return op->getNumRegions() == 0;
  int64_t elements = 0;
  for (Type type : op->getResultTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      elements += tensor.getNumElements();
  return working.getWork().flops <= kFlopsPerElement * elements;
}

/// Finds the ops that read only variables, or only arguments.
void FunctionStages::findRepeated() {
  llvm::DenseSet<StringAttr> stored;
  for (Op op : ops)
    if (auto store = dyn_cast<StoreOp>(op))
      stored.insert(store.getVariableAttr().getAttr());
  llvm::DenseSet<Op> readsArguments;
  for (Op op : ops) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      StringAttr name = load.getVariableAttr().getAttr();
      if (stored.contains(name))
        continue;
      repeated.insert(op);
      auto variable = tables.lookupNearestSymbolFrom<VariableOp>(
          op, load.getVariableAttr());
      if (variable.getRole() == VariableRole::Parameter)
        variablesOf[op].insert(name);
      continue;
    }
    if (!isMemoryEffectFree(op) || !isCheap(op))
      continue;
    bool isRead = false, isAll = true;
    for (Value input : getInputs(op)) {
      Operation *maker = input.getDefiningOp();
      isRead |= !maker || readsArguments.contains(maker);
      isAll &= !maker || isRepeated(maker);
    }
    llvm::SetVector<StringAttr> variables = getVariables(op);
    // An op that reads variables is repeated even if it is pinned, because a
    // plan pins all ops that it names, casts of variables included.
    if (!isAll || (variables.empty() ? isPinned(op) : isRead))
      continue;
    // The arguments of training are ids and labels; those of another program
    // are its data.
    if (isRead && !function->hasAttr(kRoleAttrName))
      continue;
    repeated.insert(op);
    if (isRead)
      readsArguments.insert(op);
    if (!variables.empty())
      variablesOf[op] = std::move(variables);
  }
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

LogicalResult FunctionStages::assignForward() {
  for (Op op : ops) {
    if (!isForward(op) || isRepeated(op))
      continue;
    if (auto own = countStages.find(op); own != countStages.end()) {
      stages[op] = own->second;
      continue;
    }
    int64_t stage = -1;
    Op latest = nullptr;
    for (Op maker : getMakers(op))
      if (auto known = stages.find(maker);
          known != stages.end() && known->second > stage) {
        stage = known->second;
        latest = maker;
      }
    if (auto pin = op->getAttrOfType<IntegerAttr>(kStageAttrName)) {
      if (pin.getInt() >= pipeline.stages)
        return op->emitOpError() << "expected a stage below " << pipeline.stages
                                 << ", got " << pin.getInt();
      if (pin.getInt() < stage) {
        auto diag = op->emitOpError() << "is of stage " << pin.getInt()
                                      << ", but reads a value of stage "
                                      << stage << ", which comes later";
        diag.attachNote(latest->getLoc()) << "made here";
        return diag;
      }
      stage = pin.getInt();
    } else if (!decidesOwners) {
      // The first stage that has all the variables.
      llvm::BitVector allowed(pipeline.stages, true);
      for (StringAttr variable : getVariables(op))
        if (llvm::BitVector own = owners.getStages(variable); own.any())
          allowed &= own;
      if (allowed.none())
        return op->emitOpError()
               << "reads variables of different stages, so it can be in none";
      if (!allowed.all()) {
        int found =
            stage < 1 ? allowed.find_first() : allowed.find_next(stage - 1);
        if (found < 0)
          return op->emitOpError() << "reads a value of stage " << stage
                                   << ", but its variables are of earlier ones";
        stage = found;
      }
    }
    // The sums of losses are those of the last stage.
    if (isa<StoreOp>(op))
      stage = pipeline.getLastStage();
    stages[op] = stage;
  }
  // An op without inputs of a stage belongs to its first reader.
  for (Op op : llvm::reverse(ops)) {
    if (!isForward(op) || isRepeated(op) || stages.lookup(op) >= 0)
      continue;
    int64_t stage = pipeline.stages;
    for (Op reader : getReaders(op))
      if (isForward(reader) && !isRepeated(reader))
        stage = std::min(stage, stages.lookup(reader));
    stages[op] = stage == pipeline.stages || stage < 0 ? 0 : stage;
  }
  for (Op op : ops)
    if (auto store = dyn_cast<StoreOp>(op); store && isForward(op)) {
      StageSum sum = *findStageSum(store);
      stages[sum.load] = stages[sum.addition] = stages[op];
    }
  moveReshards();
  if (decidesOwners)
    for (Op op : ops)
      if (isForward(op) && !isRepeated(op))
        for (StringAttr variable : getVariables(op))
          owners.add(variable, stages[op]);
  return success();
}

/// Puts each reshard on the side of a cut where fewer bytes cross.
void FunctionStages::moveReshards() {
  auto isMovable = [&](Op op) {
    return isa<ReshardOp>(op) && isForward(op) && !isRepeated(op) &&
           getVariables(op).empty();
  };
  auto grows = [&](Op op) {
    return getLocalBytes(op->getResult(0), pipeline.mesh) >
           getLocalBytes(op->getOperand(0), pipeline.mesh);
  };
  for (Op op : ops)
    if (isMovable(op) && !grows(op))
      for (Op maker : getMakers(op))
        stages[op] = stages[maker];
  for (Op op : llvm::reverse(ops)) {
    if (!isMovable(op) || !grows(op))
      continue;
    int64_t stage = pipeline.stages;
    for (Op reader : getReaders(op))
      if (isForward(reader) && !isRepeated(reader))
        stage = std::min(stage, stages[reader]);
    if (stage < pipeline.stages)
      stages[op] = std::max(stages[op], stage);
  }
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// Finds the earliest stage of each op of the backward pass: an op that helps
/// to compute the gradient of a variable runs before, or in, the first stage
/// that has the variable. Example: a weight is stored in slices of its rows,
/// and the cut is between the slices' products. The backward pass extracts the
/// columns of the activation, which the earlier stage has, for the slice of the
/// later one.
llvm::DenseMap<Operation *, int64_t> FunctionStages::findEarliestStages() {
  llvm::DenseMap<Op, int64_t> earliest;
  for (Op op : llvm::reverse(ops)) {
    if (isForward(op) || isRepeated(op))
      continue;
    int64_t stage = 0;
    if (auto store = dyn_cast<StoreOp>(op)) {
      auto variable = tables.lookupNearestSymbolFrom<VariableOp>(
          op, store.getVariableAttr());
      stage =
          std::max(owners.getStages(getParameterOf(variable)).find_first(), 0);
    }
    for (Op reader : getReaders(op))
      stage = std::max(stage, earliest.lookup(reader));
    earliest[op] = stage;
  }
  return earliest;
}

LogicalResult FunctionStages::assignBackward(Op op, int64_t earliest) {
  if (auto store = dyn_cast<StoreOp>(op)) {
    StageSum sum = *findStageSum(store);
    auto variable =
        tables.lookupNearestSymbolFrom<VariableOp>(op, store.getVariableAttr());
    int64_t stage = pipeline.getLastStage();
    Operation *maker = sum.addition->getOperand(sum.added).getDefiningOp();
    if (maker && !isRepeated(maker))
      stage = stages.lookup(maker);
    llvm::BitVector own = owners.getStages(getParameterOf(variable));
    int found = own.find_last_in(0, stage + 1);
    if (found < 0)
      return op->emitOpError()
             << "adds to a gradient of stage " << own.find_first()
             << ", but its value is of stage " << stage
             << ", which works on the gradient later";
    stages[op] = stages[sum.addition] = stages[sum.load] = found;
    return success();
  }
  // Gradients go from the last stage to the first.
  int64_t last = pipeline.getLastStage(), first = 0;
  llvm::BitVector present(pipeline.stages, true), allowed = present;
  for (Op maker : getMakers(op)) {
    if (!isForward(maker)) {
      last = std::min(last, stages.lookup(maker));
      continue;
    }
    // A forward value is present in the stages that make or read it.
    llvm::BitVector own(pipeline.stages);
    own.set(stages.lookup(maker));
    for (Op reader : getReaders(maker))
      if (isForward(reader) && !isRepeated(reader))
        own.set(stages.lookup(reader));
    present &= own;
    first = std::max(first, stages.lookup(maker));
  }
  for (StringAttr variable : getVariables(op))
    if (llvm::BitVector own = owners.getStages(variable); own.any())
      allowed &= own;
  present &= allowed;
  auto findLast = [&](const llvm::BitVector &of, int64_t begin) {
    return of.find_last_in(begin, std::max(begin, last + 1));
  };
  int found = findLast(present, earliest);
  // If no stage has all forward values, some of them are sent: to a later stage
  // if possible, else to an earlier one.
  if (found < 0)
    found = findLast(allowed, std::max(first, earliest));
  if (found < 0)
    found = findLast(allowed, earliest);
  if (found < 0)
    return op->emitOpError() << "needs a gradient of stage " << last
                             << " and variables of later stages";
  stages[op] = found;
  return success();
}

LogicalResult FunctionStages::assignBackward() {
  llvm::DenseMap<Op, int64_t> earliest = findEarliestStages();
  for (Op op : ops) {
    if (isForward(op) || isRepeated(op) || isa<LoadOp>(op))
      continue;
    // If the op is the addition of a sum, its store assigns it.
    bool isSum = llvm::any_of(op->getUsers(), [&](Operation *user) {
      auto store = dyn_cast<StoreOp>(user);
      return store && findStageSum(store)->addition == op;
    });
    if (!isSum && failed(assignBackward(op, earliest.lookup(op))))
      return failure();
  }
  delayBackward();
  return success();
}

/// Moves an op that needs nothing of its stage to the stage of its readers,
/// unless more bytes would cross. Example: the gradient of a bias is a sum of a
/// gradient that the earlier stage receives anyway.
void FunctionStages::delayBackward() {
  for (Op op : llvm::reverse(ops)) {
    if (isForward(op) || isRepeated(op) || !isMemoryEffectFree(op) ||
        !getVariables(op).empty())
      continue;
    int64_t target = -1;
    for (Op reader : getReaders(op))
      target = std::max(target, stages.lookup(reader));
    if (target < 0 || target >= stages.lookup(op))
      continue;
    int64_t more = 0, less = 0;
    for (Value result : op->getResults())
      less += getLocalBytes(result, pipeline.mesh);
    bool isPossible = true;
    for (Value input : getInputs(op)) {
      Operation *maker = input.getDefiningOp();
      if (!maker || isRepeated(maker))
        continue;
      bool isThere = llvm::any_of(getReaders(maker), [&](Op reader) {
        return reader != op && !isRepeated(reader) &&
               stages.lookup(reader) <= target;
      });
      // A forward value would be stored by one stage more.
      isPossible &= isThere || !isForward(maker);
      if (!isThere)
        more += getLocalBytes(input, pipeline.mesh);
    }
    // A reshard moves only if fewer bytes cross, so that partial sums are added
    // up in the stage that computes them.
    if (isPossible && (isa<ReshardOp>(op) ? more < less : more <= less))
      stages[op] = target;
  }
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Finds the part of each op. The pass for weights has the ops of the backward
/// pass for which no earlier stage waits. The first stage has no earlier stage;
/// its pass for weights has the ops that serve only one variable.
void FunctionStages::findWeightPasses() {
  llvm::DenseSet<Op> awaited;
  llvm::DenseMap<Op, llvm::SetVector<StringAttr>> serves;
  for (Op op : llvm::reverse(ops)) {
    if (isRepeated(op))
      continue;
    int64_t stage = stages.lookup(op);
    if (isForward(op)) {
      parts[op] = {StageWork::Forward, stage};
      continue;
    }
    llvm::SetVector<StringAttr> served;
    bool isAwaited = false;
    if (auto store = dyn_cast<StoreOp>(op))
      served.insert(store.getVariableAttr().getAttr());
    for (Op reader : getReaders(op)) {
      isAwaited |= stages.lookup(reader) < stage || awaited.contains(reader);
      served.insert(serves[reader].begin(), serves[reader].end());
    }
    if (stage == 0)
      isAwaited = served.size() > 1;
    if (isAwaited)
      awaited.insert(op);
    serves[op] = std::move(served);
    bool isWeights = splitsBackward && !isAwaited;
    // The last stage runs backward as soon as it has run forward.
    bool isLast = stage == pipeline.getLastStage();
    parts[op] = {isWeights ? StageWork::BackwardWeights
                 : isLast  ? StageWork::Forward
                           : StageWork::Backward,
                 stage};
  }
  // The load and the addition of a sum belong to the part of its store.
  for (Op op : ops)
    if (auto store = dyn_cast<StoreOp>(op)) {
      StageSum sum = *findStageSum(store);
      parts[sum.load] = parts[sum.addition] = parts[op];
    }
}

LogicalResult FunctionStages::run() {
  repeatCounts();
  if (failed(findForward()))
    return failure();
  findRepeated();
  bool isPinnedAnywhere =
      llvm::any_of(ops, [&](Op op) { return isPinned(op); });
  if (decidesOwners && !isPinnedAnywhere && failed(balanceForward()))
    return failure();
  if (failed(assignForward()))
    return failure();
  splitSharedSums();
  if (failed(assignBackward()))
    return failure();
  findWeightPasses();
  return success();
}
