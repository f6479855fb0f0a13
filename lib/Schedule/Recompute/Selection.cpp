//===- Selection.cpp - What is kept and what is computed again ------------===//
//
// Chooses by a minimum cut. On the source's side of the cut are the values that
// the backward pass needs, and the ops that run again. If a needed value is on
// this side and its op is on the other, the value is kept: the edge between the
// two has the price of keeping it. An op that runs again needs its operands, so
// the edges from the op to its operands are never cut. The edge from the op to
// the sink has the price of running it.
//
//===----------------------------------------------------------------------===//

#include "Selection.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Sharding/MinCut.h"
#include "heddle/Support/Bytes.h"

using namespace mlir;
using namespace heddle;

/// Prices are whole numbers of this part of a second.
static constexpr double kTick = 1e-9;

static int64_t getPrice(double seconds) {
  constexpr int64_t kMost = MinCut::kInfinite >> 16;
  double ticks = seconds / kTick;
  return ticks < double(kMost) ? 1 + static_cast<int64_t>(ticks) : kMost;
}

namespace {
/// Where the results of an op of a segment are read.
struct Uses {
  bool crosses = false;  ///< behind the segment's end, or as a result
  bool backward = false; ///< in the backward pass
};
} // namespace

static Uses findUses(const ForwardPass &forward, Segment segment, Value value) {
  Uses uses;
  for (Operation *user : value.getUsers()) {
    Operation *owner = forward.getOwner(user);
    int32_t index = forward.getIndex(owner);
    uses.crosses |=
        index >= segment.end || owner->hasTrait<OpTrait::IsTerminator>();
    uses.backward |= index < 0;
  }
  return uses;
}

SmallVector<int32_t> heddle::selectRecomputed(const ForwardPass &forward,
                                              Segment segment,
                                              const RecomputeCosts &costs) {
  MinCut graph;
  llvm::DenseMap<Value, int32_t> nodeOf;
  SmallVector<int32_t> nodes; ///< of ops
  auto count = segment.end - segment.begin;
  for (Operation *op : forward.getOps().slice(segment.begin, count)) {
    int32_t node = graph.addNode();
    nodes.push_back(node);
    std::optional<double> seconds = costs.getSeconds(op);
    graph.addEdge(node, MinCut::kSink,
                  seconds ? getPrice(*seconds) : MinCut::kInfinite);
    if (costs.repeatsCollectives && seconds && op->hasTrait<comm::Collective>())
      graph.addEdge(MinCut::kSource, node, MinCut::kInfinite);
    for (Value input : getOutsideInputs(op))
      if (auto known = nodeOf.find(input); known != nodeOf.end())
        graph.addEdge(node, known->second, MinCut::kInfinite);
    for (Value result : op->getResults()) {
      Uses uses = findUses(forward, segment, result);
      if (uses.crosses)
        continue;
      int32_t value = nodeOf[result] = graph.addNode();
      double bytes = getBytes(result.getType());
      graph.addEdge(value, node, getPrice(bytes * costs.secondsPerByte));
      if (uses.backward)
        graph.addEdge(MinCut::kSource, value, MinCut::kInfinite);
    }
  }
  std::vector<bool> isNeeded = graph.findSourceSide();
  SmallVector<int32_t> selected;
  for (auto [i, node] : llvm::enumerate(nodes))
    if (isNeeded[node])
      selected.push_back(segment.begin + static_cast<int32_t>(i));
  return selected;
}
