//===- StageSums.cpp - The sums of a step that stages share ---------------===//
//
// The program of a micro-batch stores only to sums over micro-batches:
// store(load + x). If several stages add to a sum, its addition is split here.
// If several devices need a sum that follows from arguments, its addition is
// repeated.
//
//===----------------------------------------------------------------------===//

#include "FunctionStages.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

std::optional<StageSum> heddle::findStageSum(StoreOp store) {
  auto addition = store.getValue().getDefiningOp<arith::AddFOp>();
  if (!addition || addition->getBlock() != store->getBlock())
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    auto load = addition->getOperand(i).getDefiningOp<LoadOp>();
    if (load && load.getVariableAttr() == store.getVariableAttr())
      return StageSum{load, addition, store, 1 - i};
  }
  return std::nullopt;
}

/// Without a barrier, repeats the sums that depend on arguments alone, such as
/// the number of labels, on every device: each update needs them, and no update
/// may wait for another device. All other sums of losses are computed by the
/// last stage alone.
void FunctionStages::repeatCounts() {
  if (pipeline.hasBarrier)
    return;
  Block &body = function.getBody().front();
  SmallVector<StoreOp> stores(body.getOps<StoreOp>());
  for (StoreOp store : stores) {
    auto variable = tables.lookupNearestSymbolFrom<VariableOp>(
        store, store.getVariableAttr());
    std::optional<StageSum> sum = findStageSum(store);
    if (!sum || variable.getRole() != VariableRole::Loss)
      continue;
    llvm::SetVector<Op> makers;
    SmallVector<Value> pending = {sum->addition->getOperand(sum->added)};
    bool isOfArguments = true;
    while (!pending.empty()) {
      Operation *maker = pending.pop_back_val().getDefiningOp();
      if (!maker || !makers.insert(maker))
        continue;
      isOfArguments &= isMemoryEffectFree(maker);
      llvm::append_range(pending, getInputs(maker));
    }
    int64_t last = pipeline.getLastStage();
    if (!isOfArguments) {
      owners.add(variable.getSymNameAttr(), last);
      continue;
    }
    makers.insert(sum->load);
    makers.insert(sum->addition);
    makers.insert(store);
    llvm::BitVector done(pipeline.devices);
    done.set(pipeline.getDevice(last));
    for (int64_t stage = 0; stage < last; ++stage) {
      if (done[pipeline.getDevice(stage)])
        continue;
      done.set(pipeline.getDevice(stage));
      IRMapping values;
      OpBuilder builder(store);
      for (Operation &op : llvm::make_early_inc_range(body))
        if (makers.contains(&op))
          countStages[builder.clone(op, values)] = stage;
    }
  }
}

/// Makes one addition for each part of the gradient of a variable that several
/// stages read, so that each part is added where it arises. This holds for
/// stages of one device, too: otherwise the part of the later stage would be
/// kept for each micro-batch in flight.
void FunctionStages::splitSharedSums() {
  SmallVector<StageSum> sums;
  for (Op op : ops)
    if (auto store = dyn_cast<StoreOp>(op)) {
      auto variable = tables.lookupNearestSymbolFrom<VariableOp>(
          op, store.getVariableAttr());
      if (owners.getStages(getParameterOf(variable)).count() > 1)
        sums.push_back(*findStageSum(store));
    }
  OpBuilder builder(function.getContext());
  bool isChanged = !sums.empty();
  while (!sums.empty()) {
    StageSum sum = sums.pop_back_val();
    Value added = sum.addition->getOperand(sum.added);
    // Looks through reshards, which are linear.
    SmallVector<ReshardOp> reshards;
    while (auto reshard = added.getDefiningOp<ReshardOp>()) {
      reshards.push_back(reshard);
      added = reshard.getX();
    }
    SmallVector<Value> terms;
    if (auto addition = added.getDefiningOp<arith::AddFOp>()) {
      terms = {addition.getLhs(), addition.getRhs()};
    } else if (auto grad = added.getDefiningOp<EmbeddingGradOp>();
               grad && grad.getAccumulate()) {
      builder.setInsertionPointAfter(grad);
      auto alone = cast<EmbeddingGradOp>(builder.clone(*grad));
      alone.getAccumulateMutable().clear();
      terms = {grad.getAccumulate(), alone.getResult()};
    } else {
      continue;
    }
    builder.setInsertionPoint(sum.store);
    for (Value term : terms) {
      for (ReshardOp reshard : llvm::reverse(reshards)) {
        auto own = cast<ReshardOp>(builder.clone(*reshard));
        own.getXMutable().assign(term);
        term = own;
      }
      auto load = cast<LoadOp>(builder.clone(*sum.load));
      Operation *addition = builder.clone(*sum.addition);
      addition->setOperand(1 - sum.added, load);
      addition->setOperand(sum.added, term);
      auto store = cast<StoreOp>(builder.clone(*sum.store));
      store.getValueMutable().assign(addition->getResult(0));
      sums.push_back({load, addition, store, sum.added});
    }
    Operation *added0 = sum.addition->getOperand(sum.added).getDefiningOp();
    sum.store.erase();
    sum.addition->erase();
    if (sum.load->use_empty())
      sum.load.erase();
    // Ops that nothing reads any more.
    while (added0 && added0->use_empty() && isMemoryEffectFree(added0)) {
      SmallVector<Op> makers;
      for (Value operand : added0->getOperands())
        if (Operation *maker = operand.getDefiningOp())
          makers.push_back(maker);
      added0->erase();
      added0 = nullptr;
      for (Op maker : makers)
        if (maker->use_empty() && isMemoryEffectFree(maker))
          added0 = maker;
    }
  }
  if (!isChanged)
    return;
  ops.clear();
  for (Operation &op : function.getBody().front().without_terminator())
    ops.push_back(&op);
}
