//===- DecomposeCollectives.cpp - Collectives by levels of the topology ---===//

#include "Dimensions.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/CollectiveCosts.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "heddle/Support/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_DECOMPOSECOLLECTIVESPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

/// Consecutive axes of a collective that have the same level.
struct Run {
  Axes axes;
  AxisMask mask = 0;
  int level = 0; ///< outermost level that the axes cross
  int64_t size = 1;
};

class Decomposer {
public:
  Decomposer(MeshRef mesh, const MeshTopology &topology, Hierarchy hierarchy)
      : mesh(mesh), topology(topology), hierarchy(hierarchy) {
    for (unsigned i = 0; i < topology.getAxisSizes().size(); ++i)
      levels.push_back(topology.getOutermostLevel(AxisMask(1) << i));
  }

  /// Replaces the collective by steps over the runs of its axes, if the steps
  /// are forced or cheaper.
  template <typename OpTy> void decompose(OpTy op);

private:
  /// Returns the cost of the steps that replace a collective over two or more
  /// runs. Returns nothing if the collective has too few elements for them.
  std::optional<CollectiveCost> getStepsCost(comm::AllReduceOp op,
                                             ArrayRef<Run> runs) const;
  std::optional<CollectiveCost> getStepsCost(comm::AllGatherOp op,
                                             ArrayRef<Run> runs) const;
  std::optional<CollectiveCost> getStepsCost(comm::ReduceScatterOp op,
                                             ArrayRef<Run> runs) const;
  /// Builds the steps. Returns the value that replaces the op's result.
  Value build(OpBuilder &builder, comm::AllReduceOp op, ArrayRef<Run> runs);
  Value build(OpBuilder &builder, comm::AllGatherOp op, ArrayRef<Run> runs);
  Value build(OpBuilder &builder, comm::ReduceScatterOp op, ArrayRef<Run> runs);

  /// Returns the runs of the axes, in the order of the list. There is one run
  /// if all axes have one level, except that Hierarchy::Always gives each axis
  /// a run.
  SmallVector<Run> getRuns(ArrayRef<StringAttr> axes) const;
  /// Returns the indices of the runs, innermost level first.
  static SmallVector<size_t> fromInside(ArrayRef<Run> runs);
  /// Returns the axes of the innermost level as one run, and all other axes as
  /// another.
  static std::pair<Run, Run> splitInside(ArrayRef<Run> runs);
  static int64_t getNumMembers(ArrayRef<Run> runs) {
    int64_t members = 1;
    for (const Run &run : runs)
      members *= run.size;
    return members;
  }
  AxisMask getMask(ArrayRef<StringAttr> axes) const {
    return getAxisMask(mesh.mesh, axes);
  }
  /// Returns whether the steps are forced or cheaper.
  bool isChosen(CollectiveCost flat, CollectiveCost steps) const {
    return hierarchy == Hierarchy::Always || steps.seconds < flat.seconds;
  }
  AxisListAttr list(const Axes &axes) const {
    return AxisListAttr::get(mesh.symbol.getContext(), axes);
  }
  StringRef symbol() const { return mesh.symbol.getValue(); }

  MeshRef mesh;
  const MeshTopology &topology;
  Hierarchy hierarchy;
  /// The outermost level that each axis crosses.
  SmallVector<int> levels;
};

} // namespace

SmallVector<Run> Decomposer::getRuns(ArrayRef<StringAttr> axes) const {
  Axes larger;
  llvm::copy_if(axes, std::back_inserter(larger), [&](StringAttr axis) {
    return mesh.mesh.getAxisSize(axis) > 1;
  });
  auto levelOf = [&](StringAttr axis) {
    return levels[llvm::Log2_32(getMask(axis))];
  };
  bool isFlat = llvm::all_of(larger, [&](StringAttr axis) {
    return levelOf(axis) == levelOf(larger.front());
  });
  SmallVector<Run> runs;
  for (StringAttr axis : larger) {
    int level = levelOf(axis);
    // Without levels, the order of the mesh decides: its last axis is
    // innermost.
    if (isFlat && hierarchy == Hierarchy::Always)
      level = -int(llvm::Log2_32(getMask(axis)));
    if (runs.empty() || runs.back().level != level)
      runs.push_back({{}, 0, level, 1});
    runs.back().axes.push_back(axis);
    runs.back().mask |= getMask(axis);
    runs.back().size *= mesh.mesh.getAxisSize(axis);
  }
  return runs;
}

SmallVector<size_t> Decomposer::fromInside(ArrayRef<Run> runs) {
  SmallVector<size_t> order;
  for (size_t i = 0; i < runs.size(); ++i)
    order.push_back(i);
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::pair(runs[a].level, a) < std::pair(runs[b].level, b);
  });
  return order;
}

std::pair<Run, Run> Decomposer::splitInside(ArrayRef<Run> runs) {
  Run inside, outside;
  int innermost = INT_MAX;
  for (const Run &run : runs)
    innermost = std::min(innermost, run.level);
  for (const Run &run : runs) {
    Run &into = run.level == innermost ? inside : outside;
    into.axes.append(run.axes);
    into.mask |= run.mask;
    into.size *= run.size;
  }
  return {inside, outside};
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

// All-reduce: reduce-scatter inside (over the innermost level), all-reduce of
// the parts between (over all other levels), all-gather inside.

std::optional<CollectiveCost>
Decomposer::getStepsCost(comm::AllReduceOp op, ArrayRef<Run> runs) const {
  auto [inside, outside] = splitInside(runs);
  auto type = cast<RankedTensorType>(op.getType());
  int64_t count = type.getNumElements();
  if (count < inside.size)
    return std::nullopt;
  int64_t partBytes =
      getBytes(type) / count * llvm::divideCeil(count, inside.size);
  CollectiveCost steps = topology.reduceScatter(inside.mask, partBytes);
  steps += topology.allReduce(outside.mask, partBytes);
  steps += topology.allGather(inside.mask, partBytes);
  return steps;
}

Value Decomposer::build(OpBuilder &builder, comm::AllReduceOp op,
                        ArrayRef<Run> runs) {
  auto [inside, outside] = splitInside(runs);
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getType());
  int64_t count = type.getNumElements();
  int64_t part = llvm::divideCeil(count, inside.size);
  RankedTensorType flat = type.clone({count}), parts = type.clone({part});
  Value value = mergeDimensions(builder, loc, op.getInput(), 0, type.getRank());
  value = builder.create<comm::ReduceScatterOp>(
      loc, parts, value, symbol(), list(inside.axes), op.getKind(), 0);
  auto between = builder.create<comm::AllReduceOp>(
      loc, parts, value, symbol(), list(outside.axes), op.getKind());
  value = builder.create<comm::AllGatherOp>(loc, flat, between, symbol(),
                                            list(inside.axes), 0);
  value = splitDimension(builder, loc, value, 0, type.getShape());
  decompose(between); // there may be more levels
  return value;
}

// All-gather: between, then inside. Each run gets a dimension of its own: in
// one common dimension, the run that is gathered first would become the minor
// one.

std::optional<CollectiveCost>
Decomposer::getStepsCost(comm::AllGatherOp op, ArrayRef<Run> runs) const {
  auto from = cast<RankedTensorType>(op.getInput().getType());
  auto type = cast<RankedTensorType>(op.getType());
  CollectiveCost steps;
  int64_t members = 1;
  for (size_t run : llvm::reverse(fromInside(runs))) {
    steps += topology.allGather(runs[run].mask, getBytes(from) * members);
    members *= runs[run].size;
  }
  int64_t dim = op.getDim();
  if (from.getDimSize(dim) * members != type.getDimSize(dim) && dim != 0)
    steps += topology.local(getBytes(type));
  return steps;
}

Value Decomposer::build(OpBuilder &builder, comm::AllGatherOp op,
                        ArrayRef<Run> runs) {
  Location loc = op.getLoc();
  auto from = cast<RankedTensorType>(op.getInput().getType());
  auto type = cast<RankedTensorType>(op.getType());
  int64_t dim = op.getDim(), part = from.getDimSize(dim);
  int64_t gathered = part * getNumMembers(runs);
  SmallVector<int64_t> sizes(runs.size(), 1);
  sizes.push_back(part);
  Value value = splitDimension(builder, loc, op.getInput(), dim, sizes);
  for (size_t run : llvm::reverse(fromInside(runs))) {
    auto whole = withSize(cast<RankedTensorType>(value.getType()), dim + run,
                          runs[run].size);
    value = builder.create<comm::AllGatherOp>(loc, whole, value, symbol(),
                                              list(runs[run].axes), dim + run);
  }
  value = mergeDimensions(builder, loc, value, dim, sizes.size());
  if (gathered != type.getDimSize(dim))
    value = extractRows(builder, loc, value, dim, builder.getIndexAttr(0),
                        type.getDimSize(dim));
  return value;
}

// Reduce-scatter: inside, then between, as the reverse of the all-gather.

std::optional<CollectiveCost>
Decomposer::getStepsCost(comm::ReduceScatterOp op, ArrayRef<Run> runs) const {
  auto from = cast<RankedTensorType>(op.getInput().getType());
  auto type = cast<RankedTensorType>(op.getType());
  int64_t members = getNumMembers(runs), rest = members;
  CollectiveCost steps;
  for (size_t run : fromInside(runs)) {
    rest /= runs[run].size;
    steps += topology.reduceScatter(runs[run].mask, getBytes(type) * rest);
  }
  int64_t dim = op.getDim();
  auto whole = withSize(from, dim, type.getDimSize(dim) * members);
  if (whole != from)
    steps += topology.local(getBytes(whole));
  return steps;
}

Value Decomposer::build(OpBuilder &builder, comm::ReduceScatterOp op,
                        ArrayRef<Run> runs) {
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getType());
  int64_t dim = op.getDim(), part = type.getDimSize(dim);
  SmallVector<int64_t> sizes;
  for (const Run &run : runs)
    sizes.push_back(run.size);
  sizes.push_back(part);
  Value value = splitDimension(
      builder, loc,
      padEnd(builder, loc, op.getInput(), dim, part * getNumMembers(runs)), dim,
      sizes);
  for (size_t run : fromInside(runs)) {
    auto rest = withSize(cast<RankedTensorType>(value.getType()), dim + run, 1);
    value = builder.create<comm::ReduceScatterOp>(loc, rest, value, symbol(),
                                                  list(runs[run].axes),
                                                  op.getKind(), dim + run);
  }
  return mergeDimensions(builder, loc, value, dim, sizes.size());
}

template <typename OpTy> void Decomposer::decompose(OpTy op) {
  SmallVector<Run> runs = getRuns(op.getAxes().getAxes());
  if (runs.size() < 2)
    return;
  std::optional<CollectiveCost> steps = getStepsCost(op, runs);
  if (!steps || !isChosen(getCollectiveCost(op, mesh.mesh, topology), *steps))
    return;
  OpBuilder builder(op);
  op.getResult().replaceAllUsesWith(build(builder, op, runs));
  op.erase();
}

namespace {
struct DecomposeCollectivesPass
    : heddle::impl::DecomposeCollectivesPassBase<DecomposeCollectivesPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshRef mesh = getMesh(module);
    if (!mesh)
      return;
    auto planned = module->getAttrOfType<HierarchyAttr>(kHierarchyAttrName);
    std::optional<Hierarchy> chosen =
        planned ? planned.getValue() : Hierarchy::Auto;
    if (!hierarchy.empty())
      chosen = symbolizeHierarchy(hierarchy);
    if (!chosen) {
      module.emitError()
          << "expected the hierarchy auto, always or never, got '" << hierarchy
          << "'";
      return signalPassFailure();
    }
    if (chosen == Hierarchy::Never)
      return;
    auto sequences = ReshardSequences::create(module, mesh, cluster);
    if (failed(sequences))
      return signalPassFailure();
    Decomposer decomposer(mesh, sequences->getTopology(), *chosen);
    SmallVector<Operation *> collectives;
    module.walk([&](Operation *op) {
      // Collectives inside of comm.start belong to an existing schedule.
      if (isa<comm::AllReduceOp, comm::AllGatherOp, comm::ReduceScatterOp>(
              op) &&
          !op->getParentOfType<comm::StartOp>())
        collectives.push_back(op);
    });
    for (Operation *op : collectives)
      llvm::TypeSwitch<Operation *>(op)
          .Case<comm::AllReduceOp, comm::AllGatherOp, comm::ReduceScatterOp>(
              [&](auto collective) { decomposer.decompose(collective); });
  }
};
} // namespace
