//===- FlattenControlFlow.cpp - heddle-flatten-control-flow ---------------===//

#include "../InlineCalls/WriteOut.h"
#include "GuardTraps.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "llvm/Support/MathExtras.h"

namespace heddle {
#define GEN_PASS_DEF_FLATTENCONTROLFLOWPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

/// Flattens one function: clones the ops of regions to the places where they
/// run, one after the other. Values that become constant are folded, so that
/// the bounds of inner loops are known. The body of a loop that is not unrolled
/// is flattened.
class Flattener {
public:
  explicit Flattener(int64_t maxOps)
      : maxOps(maxOps), writer("heddle-flatten-control-flow", maxOps) {}

  LogicalResult flatten(Block &block);

private:
  /// Replaces `op` by the ops that it runs. If it cannot be replaced, flattens
  /// its regions and sets `stays`.
  LogicalResult flatten(Operation *op, bool &stays);
  LogicalResult flattenRegions(Operation *op);
  LogicalResult unroll(scf::ForOp loop);
  LogicalResult branch(scf::IfOp op);
  LogicalResult branchInBodies(Operation *op);
  bool isWrittenOut(scf::ForOp loop) const;
  void replace(Operation *op, ValueRange values) {
    op->replaceAllUsesWith(values);
    op->erase();
  }

  int64_t maxOps;
  lower::BlockWriter writer;
};

} // namespace

/// Returns the number of iterations of a loop with constant bounds and a
/// positive constant step.
static std::optional<int64_t> getTripCount(scf::ForOp loop) {
  std::optional<int64_t> low = getConstantIntValue(loop.getLowerBound()),
                         high = getConstantIntValue(loop.getUpperBound()),
                         step = getConstantIntValue(loop.getStep());
  if (!low || !high || !step || *step <= 0)
    return std::nullopt;
  if (*low >= *high)
    return 0;
  // Unsigned, because the distance may exceed the largest signed number.
  uint64_t distance = uint64_t(*high) - uint64_t(*low);
  uint64_t trips = (distance - 1) / uint64_t(*step) + 1;
  return std::min<uint64_t>(trips, INT64_MAX);
}

/// Returns the number of ops of a block when it is written out, at most
/// INT64_MAX. A loop of unknown length counts as one iteration.
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

/// Returns whether the loop is unrolled: its length is known and not too long.
/// (A step of 0 or less has no length; `flatten` reports it.)
bool Flattener::isWrittenOut(scf::ForOp loop) const {
  std::optional<int64_t> trips = getTripCount(loop);
  uint64_t perTrip = uint64_t(countOps(*loop.getBody())) + 1; // and its index
  return trips && llvm::SaturatingMultiply<uint64_t>(*trips, perTrip) <=
                      uint64_t(maxOps);
}

LogicalResult Flattener::unroll(scf::ForOp loop) {
  int64_t low = *getConstantIntValue(loop.getLowerBound()),
          high = *getConstantIntValue(loop.getUpperBound()),
          step = *getConstantIntValue(loop.getStep());
  SmallVector<Value> carried(loop.getInitArgs());
  bool isLast = false;
  for (int64_t i = low; i < high && !isLast;
       isLast = llvm::AddOverflow(i, step, i)) {
    if (failed(writer.count(loop))) // counts the index
      return failure();
    OpBuilder builder(loop);
    Value index = builder.create<arith::ConstantOp>(
        loop.getLoc(),
        builder.getIntegerAttr(loop.getInductionVar().getType(), i));
    IRMapping mapping;
    mapping.map(loop.getInductionVar(), index);
    mapping.map(loop.getRegionIterArgs(), carried);
    auto results = writer.write(*loop.getBody(), mapping, loop);
    if (failed(results))
      return failure();
    carried = std::move(*results);
  }
  replace(loop, carried);
  return success();
}

/// Writes out both branches and selects their results. If the condition is
/// constant, writes out only the branch taken.
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
    auto results = writer.write(region.front(), mapping, op);
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

/// Flattens the branches in the body of an op on tensors: both sides are
/// computed for every element. An inner branch comes before the one around it.
LogicalResult Flattener::branchInBodies(Operation *op) {
  SmallVector<scf::IfOp> branches;
  op->walk([&](scf::IfOp inner) { branches.push_back(inner); });
  for (scf::IfOp inner : branches)
    if (failed(branch(inner)))
      return failure();
  return success();
}

LogicalResult Flattener::flattenRegions(Operation *op) {
  for (Region &region : op->getRegions())
    for (Block &block : region)
      if (failed(flatten(block)))
        return failure();
  return success();
}

LogicalResult Flattener::flatten(Operation *op, bool &stays) {
  stays = false;
  if (auto conditional = dyn_cast<scf::IfOp>(op))
    return branch(conditional);
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    std::optional<int64_t> step = getConstantIntValue(loop.getStep());
    if (step && *step <= 0)
      return loop.emitOpError()
             << "cannot be compiled: expected a positive step, got " << *step;
    if (isWrittenOut(loop))
      return unroll(loop);
  } else if (!isa<scf::WhileOp>(op)) {
    return op->emitOpError() << "cannot be compiled: only scf.for, scf.while, "
                                "scf.if and calls can be";
  }
  stays = true;
  return flattenRegions(op);
}

LogicalResult Flattener::flatten(Block &block) {
  Operation *before = nullptr; // every op up to this one is flat
  while (true) {
    Operation *op = before ? before->getNextNode() : &block.front();
    if (!op)
      return success();
    bool stays = true;
    if (failed(isa<RegionBranchOpInterface>(op) ? flatten(op, stays)
                                                : branchInBodies(op)))
      return failure();
    // If the op was replaced, the next round takes the first op in its place.
    if (stays)
      before = op;
  }
}

namespace {
struct FlattenControlFlowPass
    : heddle::impl::FlattenControlFlowPassBase<FlattenControlFlowPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SmallVector<func::FuncOp>> programs =
        lower::getPrograms(getOperation());
    if (failed(programs))
      return signalPassFailure();
    for (func::FuncOp program : *programs)
      if (failed(Flattener(maxOps).flatten(program.getBody().front())))
        return signalPassFailure();
  }
};
} // namespace
