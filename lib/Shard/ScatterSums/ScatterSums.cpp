//===- ScatterSums.cpp - heddle-scatter-sums ------------------------------===//
//
// Every sum and every op of a region is either whole (W) or split (S). The
// least cut of a graph finds the cheapest labels. Nodes on the source's side
// are split. The cost of a label is an edge to the opposite terminal:
//
//   a sum      W: all-reduce               S: reduce-scatter
//   an op      W: its bytes                S: its bytes on a part of the rows,
//                                             and the sum of a result that
//                                             becomes partial
//   a value that is made split and read whole: one all-gather for all readers
//   a value that is made whole and read split: a slice
//
//===----------------------------------------------------------------------===//

#include "SumRegion.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/MinCut.h"
#include "heddle/Sharding/ReshardSequence.h"

namespace heddle {
#define GEN_PASS_DEF_SCATTERSUMSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns the seconds as a whole number, the capacity of an edge.
static int64_t getPrice(double seconds) {
  constexpr double kTick = 1e-12;
  constexpr double kMost = double(MinCut::kInfinite >> 16);
  return int64_t(std::min(seconds / kTick, kMost));
}

namespace {
/// Labels the sums and ops of one region.
class Labels {
public:
  Labels(const SumRegion &region, const SumBlock &in,
         ReshardSequences &sequences)
      : region(region), in(in), sequences(sequences) {}

  /// Returns the ops that are split.
  SmallVector<Operation *> choose();

private:
  /// The two shardings in which a value may be made.
  struct Made {
    ShardingAttr whole, split;
    int32_t node;
  };

  void addSum(Value sum, unsigned dim);
  void addOp(Operation *op);
  /// Adds the cost of a gather if a reader needs the value whole, and of slices
  /// if one needs it split.
  void addReaders(Value value, const Made &made);
  /// Adds what each label of the node costs.
  void addCosts(int32_t node, double whole, double split) {
    graph.addEdge(MinCut::kSource, node, getPrice(whole));
    graph.addEdge(node, MinCut::kSink, getPrice(split));
  }
  double getSeconds(Value value, ShardingAttr from, ShardingAttr to) {
    return sequences.getCost(cast<RankedTensorType>(value.getType()), from, to)
        .seconds;
  }
  /// Returns the seconds in which a device reads or writes a tensor once.
  double getSeconds(Value value, ShardingAttr sharding);

  const SumRegion &region;
  const SumBlock &in;
  ReshardSequences &sequences;
  MinCut graph;
  llvm::MapVector<Operation *, int32_t> nodes;
  llvm::MapVector<Value, Made> made;
};
} // namespace

double Labels::getSeconds(Value value, ShardingAttr sharding) {
  if (!isa<RankedTensorType>(value.getType()))
    return 0;
  int64_t bytes = getBytes(value.getType());
  for (const Axes &axes : getDimensions(sharding))
    bytes = llvm::divideCeil(bytes, in.mesh.getSize(axes));
  // The topology counts a read and a write.
  return sequences.getTopology().local(bytes).seconds / 2;
}

void Labels::addSum(Value sum, unsigned dim) {
  Operation *op = sum.getDefiningOp();
  auto &[rule, axes] = in.factors.find(op)->second;
  DimensionAxes dims = getDimensions(getResultSharding(
      rule, axes, cast<OpResult>(sum).getResultNumber(), in.mesh));
  ShardingAttr partial = makeSharding(in.mesh, dims, region.axes);
  ShardingAttr whole = makeSharding(in.mesh, dims);
  dims[dim].append(region.axes);
  ShardingAttr split = makeSharding(in.mesh, dims);
  int32_t node = graph.addNode();
  addCosts(node, getSeconds(sum, partial, whole),
           getSeconds(sum, partial, split));
  made[sum] = {whole, split, node};
}

void Labels::addOp(Operation *op) {
  auto &[rule, axes] = in.factors.find(op)->second;
  FactorAxes after = getSplitFactors(region, op, in.factors);
  int32_t node = nodes[op] = graph.addNode();
  double whole = 0, split = 0;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    whole += getSeconds(operand, getOperandSharding(rule, axes, i, in.mesh));
    split += getSeconds(operand, getOperandSharding(rule, after, i, in.mesh));
  }
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    if (!isa<RankedTensorType>(result.getType()))
      continue;
    ShardingAttr before = getResultSharding(rule, axes, i, in.mesh);
    ShardingAttr own = getResultSharding(rule, after, i, in.mesh);
    whole += getSeconds(result, before);
    split += getSeconds(result, own);
    if (own.getPartialAxes() != before.getPartialAxes())
      split += getSeconds(result, own, before);
    else if (own != before)
      made[result] = {before, own, node};
  }
  addCosts(node, whole, split);
}

void Labels::addReaders(Value value, const Made &made) {
  int32_t gathered = -1;
  auto needWhole = [&](int32_t reader) {
    if (gathered < 0) {
      gathered = graph.addNode();
      graph.addEdge(made.node, gathered,
                    getPrice(getSeconds(value, made.split, made.whole)));
    }
    graph.addEdge(gathered, reader, MinCut::kInfinite);
  };
  for (OpOperand &use : value.getUses()) {
    Operation *reader = use.getOwner();
    auto known = nodes.find(reader);
    if (known == nodes.end()) {
      needWhole(MinCut::kSink);
      continue;
    }
    ShardingAttr need =
        getOperandSharding(in.factors.find(reader)->second.first,
                           getSplitFactors(region, reader, in.factors),
                           use.getOperandNumber(), in.mesh);
    if (need != made.split) {
      needWhole(MinCut::kSink);
      continue;
    }
    needWhole(known->second);
    graph.addEdge(known->second, made.node,
                  getPrice(2 * getSeconds(value, made.split)));
  }
}

SmallVector<Operation *> Labels::choose() {
  for (auto [sum, dim] : region.sums)
    addSum(sum, dim);
  for (auto [op, factor] : region.ops)
    addOp(op);
  for (auto &[value, shardings] : made)
    addReaders(value, shardings);
  std::vector<bool> isSplit = graph.findSourceSide();
  SmallVector<Operation *> split;
  for (auto [op, node] : nodes)
    if (isSplit[node])
      split.push_back(op);
  return split;
}

namespace {
struct ScatterSumsPass : heddle::impl::ScatterSumsPassBase<ScatterSumsPass> {
  using Base::Base;

  void runOnOperation() override {
    auto found = ReshardSequences::ofGlobalProgram(getOperation(), cluster);
    if (failed(found))
      return signalPassFailure();
    if (!*found)
      return;
    ReshardSequences &sequences = **found;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(scatter(function, sequences)))
        return signalPassFailure();
  }

private:
  LogicalResult scatter(func::FuncOp function, ReshardSequences &sequences) {
    MeshRef mesh = sequences.getMesh();
    FailureOr<OpFactors> factors = readOpFactors(function, mesh.mesh);
    if (failed(factors))
      return failure();
    SymbolTableCollection tables;
    forEachBlock(function, [&](Block &block) {
      PartialSums sums = getStatedPartialSums(block, mesh, *factors, tables);
      SumBlock in{block, mesh, *factors, sums};
      for (const SumRegion &region : findSumRegions(in))
        for (Operation *op : Labels(region, in, sequences).choose())
          writeFactorAxes(op, factors->find(op)->second.first,
                          getSplitFactors(region, op, *factors));
    });
    return success();
  }
};
} // namespace
