//===- FlattenControlFlow.cpp - Loops, branches and calls in a row --------===//

#include "GuardTraps.h"
#include "OutlineLoops.h"
#include "ScalarTensors.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "llvm/Support/MathExtras.h"

namespace heddle {
#define GEN_PASS_DEF_FLATTENCONTROLFLOWPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

/// One function. Ops of regions are cloned to where they run, one after the
/// other; what that makes constant is folded, so that inner bounds are known.
class Flattener {
public:
  Flattener(func::FuncOp function, SymbolTableCollection &symbols,
            int64_t maxOps)
      : function(function), symbols(symbols), maxOps(maxOps) {}

  LogicalResult run();

  /// What loops that stay loops call; not flat yet.
  SmallVector<func::FuncOp> callees;

private:
  LogicalResult flatten(Operation *op);
  /// Calls first, wherever they are: what a branch calls is a part of it.
  LogicalResult inlineCalls();
  /// Appends the calls of what has taken the call's place, the last one first.
  LogicalResult inlineCall(func::CallOp call,
                           SmallVectorImpl<func::CallOp> &calls);
  LogicalResult unroll(scf::ForOp loop);
  LogicalResult branch(scf::IfOp op);
  LogicalResult branchInBodies(Operation *op);
  /// The ops of a block before `at`; its terminator's operands.
  FailureOr<SmallVector<Value>> cloneBody(Block &block, IRMapping &mapping,
                                          Operation *at);
  /// One op more that `at` is written out to.
  LogicalResult count(Operation *at);
  void replace(Operation *op, ValueRange values) {
    op->replaceAllUsesWith(values);
    op->erase();
  }

  SymbolTable &getModuleSymbols() {
    return symbols.getSymbolTable(function->getParentOp());
  }

  func::FuncOp function;
  SymbolTableCollection &symbols;
  int64_t maxOps, ops = 0;
};

} // namespace

LogicalResult Flattener::count(Operation *at) {
  if (++ops <= maxOps)
    return success();
  return at->emitOpError()
         << "cannot be compiled: written out, the function's calls and loops "
            "are more than "
         << maxOps << " ops; raise max-ops of heddle-flatten-control-flow";
}

FailureOr<SmallVector<Value>>
Flattener::cloneBody(Block &block, IRMapping &mapping, Operation *at) {
  OpBuilder builder(at);
  for (Operation &op : block.without_terminator()) {
    if (failed(count(at)))
      return failure();
    Operation *copy = builder.clone(op, mapping);
    SmallVector<Value> folded;
    // An op that was folded in place has no values, and stays.
    if (succeeded(builder.tryFold(copy, folded)) && !folded.empty()) {
      for (auto [result, value] : llvm::zip(op.getResults(), folded))
        mapping.map(result, value);
      if (isOpTriviallyDead(copy))
        copy->erase();
    }
  }
  SmallVector<Value> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(mapping.lookupOrDefault(value));
  return results;
}

LogicalResult Flattener::inlineCall(func::CallOp call,
                                    SmallVectorImpl<func::CallOp> &calls) {
  auto callee =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  if (!callee || callee.isExternal() ||
      !llvm::hasSingleElement(callee.getBody()))
    return call.emitOpError()
           << "cannot be compiled: expected a function of one block, got @"
           << call.getCallee();
  IRMapping mapping;
  mapping.map(callee.getArguments(), call.getOperands());
  Operation *before = call->getPrevNode();
  auto results = cloneBody(callee.getBody().front(), mapping, call);
  if (failed(results))
    return failure();
  for (Operation *op = call->getPrevNode(); op != before;
       op = op->getPrevNode())
    op->walk<WalkOrder::PreOrder, ReverseIterator>(
        [&](func::CallOp inner) { calls.push_back(inner); });
  replace(call, *results);
  return success();
}

LogicalResult Flattener::inlineCalls() {
  SmallVector<func::CallOp> calls;
  function.walk<WalkOrder::PreOrder, ReverseIterator>(
      [&](func::CallOp call) { calls.push_back(call); });
  while (!calls.empty())
    if (failed(inlineCall(calls.pop_back_val(), calls)))
      return failure();
  return success();
}

/// How often a loop of constant bounds and a positive step runs.
static std::optional<int64_t> getTripCount(scf::ForOp loop) {
  std::optional<int64_t> low = getConstantIntValue(loop.getLowerBound()),
                         high = getConstantIntValue(loop.getUpperBound()),
                         step = getConstantIntValue(loop.getStep());
  if (!low || !high || !step || *step <= 0)
    return std::nullopt;
  if (*low >= *high)
    return 0;
  // Unsigned: the distance may be as large as all numbers.
  uint64_t distance = uint64_t(*high) - uint64_t(*low);
  uint64_t trips = (distance - 1) / uint64_t(*step) + 1;
  return std::min<uint64_t>(trips, INT64_MAX);
}

/// How many ops a block is when it is written out; the largest number if there
/// is none so large. Loops of unknown length stay loops.
static int64_t countOps(Block &block) {
  int64_t ops = 0;
  for (Operation &op : block.without_terminator()) {
    int64_t inner = 1;
    for (Region &region : op.getRegions())
      if (isa<RegionBranchOpInterface>(op) && !region.empty())
        inner = llvm::SaturatingAdd<uint64_t>(inner, countOps(region.front()));
    if (auto loop = dyn_cast<scf::ForOp>(op))
      inner = llvm::SaturatingMultiply<uint64_t>(
          inner, getTripCount(loop).value_or(1));
    ops = std::min<uint64_t>(llvm::SaturatingAdd<uint64_t>(ops, inner),
                             INT64_MAX);
  }
  return ops;
}

LogicalResult Flattener::unroll(scf::ForOp loop) {
  std::optional<int64_t> low = getConstantIntValue(loop.getLowerBound()),
                         high = getConstantIntValue(loop.getUpperBound()),
                         step = getConstantIntValue(loop.getStep());
  if (step && *step <= 0)
    return loop.emitOpError()
           << "cannot be compiled: expected a positive step, got " << *step;
  // One of unknown length, or too long.
  std::optional<int64_t> trips = getTripCount(loop);
  uint64_t perTrip = uint64_t(countOps(*loop.getBody())) + 1; // with its index
  if (!trips ||
      llvm::SaturatingMultiply<uint64_t>(*trips, perTrip) > uint64_t(maxOps))
    return lower::outlineLoop(lower::toWhile(loop), getModuleSymbols(),
                              callees);
  SmallVector<Value> carried(loop.getInitArgs());
  bool isLast = false;
  for (int64_t i = *low; i < *high && !isLast;
       isLast = llvm::AddOverflow(i, *step, i)) {
    if (failed(count(loop))) // for its index
      return failure();
    OpBuilder builder(loop);
    Value index = builder.create<arith::ConstantOp>(
        loop.getLoc(),
        builder.getIntegerAttr(loop.getInductionVar().getType(), i));
    IRMapping mapping;
    mapping.map(loop.getInductionVar(), index);
    mapping.map(loop.getRegionIterArgs(), carried);
    auto results = cloneBody(*loop.getBody(), mapping, loop);
    if (failed(results))
      return failure();
    carried = std::move(*results);
  }
  replace(loop, carried);
  return success();
}

/// Both branches, unless the condition is known, and then the one that counts.
LogicalResult Flattener::branch(scf::IfOp op) {
  std::optional<int64_t> known = getConstantIntValue(op.getCondition());
  if (!known) {
    WalkResult stores = op.walk([&](StoreOp store) {
      auto diag = store.emitOpError()
                  << "cannot be compiled in a branch whose condition is not "
                     "constant: both branches are computed; store what the "
                     "scf.if returns instead";
      diag.attachNote(op.getLoc()) << "the branch is here";
      return WalkResult::interrupt();
    });
    if (stores.wasInterrupted())
      return failure();
    lower::guardTraps(op);
    lower::guardLoops(op);
  }
  SmallVector<Value> values[2];
  for (bool isElse : {false, true}) {
    Region &region = isElse ? op.getElseRegion() : op.getThenRegion();
    if (region.empty() || (known && bool(*known) == isElse))
      continue;
    IRMapping mapping;
    auto results = cloneBody(region.front(), mapping, op);
    if (failed(results))
      return failure();
    values[isElse] = std::move(*results);
  }
  if (known) {
    replace(op, values[*known ? 0 : 1]);
    return success();
  }
  OpBuilder builder(op);
  SmallVector<Value> chosen;
  for (auto [then, otherwise] : llvm::zip(values[0], values[1]))
    chosen.push_back(then == otherwise ? then
                                       : builder
                                             .create<arith::SelectOp>(
                                                 op.getLoc(), op.getCondition(),
                                                 then, otherwise)
                                             .getResult());
  replace(op, chosen);
  return success();
}

/// Branches between the scalars of an op's body: both are computed for every
/// element. An inner branch comes before the one around it.
LogicalResult Flattener::branchInBodies(Operation *op) {
  SmallVector<scf::IfOp> branches;
  op->walk([&](scf::IfOp inner) { branches.push_back(inner); });
  for (scf::IfOp inner : branches)
    if (failed(branch(inner)))
      return failure();
  return success();
}

LogicalResult Flattener::flatten(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return unroll(loop);
  if (auto conditional = dyn_cast<scf::IfOp>(op))
    return branch(conditional);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return lower::outlineLoop(loop, getModuleSymbols(), callees);
  if (isa<RegionBranchOpInterface>(op))
    return op->emitOpError() << "cannot be compiled: only scf.for, scf.while, "
                                "scf.if and calls can be";
  return success();
}

LogicalResult Flattener::run() {
  if (failed(inlineCalls()))
    return failure();
  Block &body = function.getBody().front();
  Operation *before = nullptr; // all up to here is flat
  while (true) {
    Operation *op = before ? before->getNextNode() : &body.front();
    if (!op)
      return lower::spreadScalars(function);
    bool isNested = isa<RegionBranchOpInterface>(op);
    if (isNested) {
      if (failed(flatten(op)))
        return failure();
      continue; // with what has taken its place
    }
    if (failed(branchInBodies(op)))
      return failure();
    before = op;
  }
}

namespace {
struct FlattenControlFlow
    : heddle::impl::FlattenControlFlowPassBase<FlattenControlFlow> {
  using FlattenControlFlowPassBase::FlattenControlFlowPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTableCollection symbols;
    SmallVector<func::FuncOp> inlined, programs;
    llvm::DenseSet<StringAttr> outlined; // by an earlier run
    module.walk([&](WhileOp loop) {
      outlined.insert(loop.getBeforeAttr().getAttr());
      outlined.insert(loop.getAfterAttr().getAttr());
    });
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isExternal() || function->hasAttr(kKernelAttrName))
        continue;
      if (function.isPrivate() &&
          !outlined.contains(function.getSymNameAttr())) {
        inlined.push_back(function);
        continue;
      }
      if (!llvm::hasSingleElement(function.getBody())) {
        function.emitOpError() << "expected one block, got "
                               << function.getBody().getBlocks().size();
        return signalPassFailure();
      }
      programs.push_back(function);
    }
    while (!programs.empty()) {
      Flattener flattener(programs.pop_back_val(), symbols, maxOps);
      if (failed(flattener.run()))
        return signalPassFailure();
      programs.append(flattener.callees);
    }
    // A private function that nobody calls is no program either.
    for (func::FuncOp function : inlined)
      function.erase();
  }
};
} // namespace
