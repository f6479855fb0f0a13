//===- ControlFlow.cpp - Values that cross regions and calls --------------===//

#include "heddle/Sharding/ControlFlow.h"
#include "dialects/Interfaces/Interfaces.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace heddle;

bool heddle::isControlFlow(Operation *op) {
  return isa<RegionBranchOpInterface>(op) &&
         !isa<ShardingRuleOpInterface>(op) &&
         !op->hasTrait<OpTrait::HasParallelRegion>() &&
         op->getNumRegions() != 0;
}

bool heddle::hasTensors(Operation *op) {
  auto isTensor = [](Type type) { return isa<RankedTensorType>(type); };
  return llvm::any_of(op->getOperandTypes(), isTensor) ||
         llvm::any_of(op->getResultTypes(), isTensor);
}

bool heddle::hasFactors(Operation *op) {
  return hasTensors(op) && !op->hasTrait<OpTrait::IsTerminator>() &&
         !isa<LoadOp, StoreOp, func::CallOp>(op) && !isControlFlow(op);
}

namespace {
/// Collects, for each value, the operands that flow into it along the edges
/// between the op and its regions.
class FlowCollector {
public:
  explicit FlowCollector(RegionBranchOpInterface op) : op(op) {}

  void collect() {
    addEdges(RegionBranchPoint::parent());
    for (Region &region : op->getRegions())
      if (!region.empty())
        addEdges(region);
  }

  llvm::MapVector<Value, SmallVector<OpOperand *>> sources;

private:
  void addEdges(RegionBranchPoint from) {
    SmallVector<RegionSuccessor> successors;
    op.getSuccessorRegions(from, successors);
    for (RegionSuccessor &successor : successors) {
      OperandRange operands = getOperands(from, successor);
      for (auto [operand, input] :
           llvm::zip(llvm::seq<unsigned>(0, operands.size()),
                     successor.getSuccessorInputs()))
        sources[input].push_back(&owner(from)->getOpOperand(
            operands.getBeginOperandIndex() + operand));
    }
  }

  Operation *owner(RegionBranchPoint from) {
    return from.isParent() ? op.getOperation()
                           : from.getRegionOrNull()->front().getTerminator();
  }

  OperandRange getOperands(RegionBranchPoint from, RegionSuccessor &to) {
    if (from.isParent())
      return op.getEntrySuccessorOperands(to);
    return cast<RegionBranchTerminatorOpInterface>(owner(from))
        .getSuccessorOperands(to);
  }

  RegionBranchOpInterface op;
};
} // namespace

FailureOr<SmallVector<CarriedValue>> heddle::getCarriedValues(Operation *op) {
  for (Region &region : op->getRegions()) {
    if (region.empty())
      continue;
    if (!llvm::hasSingleElement(region))
      return op->emitOpError()
             << "cannot be partitioned: expected regions of one block, got "
             << region.getBlocks().size()
             << "; turn its branches into scf ops first";
    if (!isa<RegionBranchTerminatorOpInterface>(region.front().getTerminator()))
      return op->emitOpError()
             << "cannot be partitioned: expected its regions to end with an op "
                "that says where control goes, got '"
             << region.front().getTerminator()->getName() << "'";
  }
  FlowCollector flow(cast<RegionBranchOpInterface>(op));
  flow.collect();

  // Unites the values into which one operand flows, in textual order.
  SmallVector<Value> tensors;
  auto addTensors = [&](ValueRange values) {
    for (Value value : values)
      if (isa<RankedTensorType>(value.getType()))
        tensors.push_back(value);
  };
  for (Region &region : op->getRegions())
    if (!region.empty())
      addTensors(region.getArguments());
  addTensors(op->getResults());
  llvm::EquivalenceClasses<void *> alike;
  DenseMap<OpOperand *, Value> receiverOf;
  for (Value value : tensors) {
    alike.insert(value.getAsOpaquePointer());
    for (OpOperand *source : flow.sources[value]) {
      auto [known, isNew] = receiverOf.try_emplace(source, value);
      if (!isNew)
        alike.unionSets(known->second.getAsOpaquePointer(),
                        value.getAsOpaquePointer());
    }
  }

  SmallVector<CarriedValue> classes;
  DenseMap<void *, unsigned> indexOf;
  for (Value value : tensors) {
    void *leader = alike.getLeaderValue(value.getAsOpaquePointer());
    auto [known, isNew] = indexOf.try_emplace(leader, classes.size());
    if (isNew)
      classes.emplace_back();
    CarriedValue &carried = classes[known->second];
    carried.values.push_back(value);
    for (OpOperand *source : flow.sources[value])
      if (!llvm::is_contained(carried.sources, source))
        carried.sources.push_back(source);
  }
  for (const CarriedValue &carried : classes)
    if (carried.sources.empty() ||
        llvm::any_of(carried.values, [&](Value value) {
          return value.getType() != carried.getType();
        }))
      return op->emitOpError()
             << "cannot be partitioned: it is not known what flows into a "
                "value of "
             << carried.getType();
  return classes;
}

void heddle::forEachOp(Block &block, function_ref<void(Operation *)> body) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    body(&op);
    if (isControlFlow(&op))
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          forEachOp(inner, body);
  }
}

void heddle::forEachOp(func::FuncOp function,
                       function_ref<void(Operation *)> body) {
  for (Block &block : function.getBody())
    forEachOp(block, body);
}

void heddle::forEachBlock(func::FuncOp function,
                          function_ref<void(Block &)> body) {
  for (Block &block : function.getBody())
    body(block);
  forEachOp(function, [&](Operation *op) {
    if (isControlFlow(op))
      for (Region &region : op->getRegions())
        for (Block &block : region)
          body(block);
  });
}

FailureOr<func::FuncOp> heddle::getCallee(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  if (!callee || callee.isExternal())
    return call.emitOpError()
           << "cannot be partitioned: expected a function with a body in this "
              "module, got @"
           << call.getCallee();
  return callee;
}

LogicalResult heddle::verifyNoRecursion(ModuleOp module) {
  // Removes functions that call no remaining function, until nothing changes.
  // Only functions that call themselves, or such functions, remain.
  DenseMap<func::FuncOp, SmallVector<func::CallOp>> calls;
  llvm::SetVector<func::FuncOp> remaining;
  for (auto function : module.getOps<func::FuncOp>()) {
    remaining.insert(function);
    function.walk([&](func::CallOp call) { calls[function].push_back(call); });
  }
  auto calleeOf = [&](func::CallOp call) {
    return module.lookupSymbol<func::FuncOp>(call.getCallee());
  };
  for (bool changed = true; changed;) {
    changed = remaining.remove_if([&](func::FuncOp function) {
      return llvm::none_of(calls[function], [&](func::CallOp call) {
        return remaining.contains(calleeOf(call));
      });
    });
  }
  for (func::FuncOp function : remaining)
    for (func::CallOp call : calls[function])
      if (remaining.contains(calleeOf(call)))
        return call.emitOpError()
               << "cannot be partitioned: @" << call.getCallee()
               << " calls itself, directly or through others; write the "
                  "recursion as a loop";
  return success();
}
