//===- Oases.cpp - The problem of Oases' planner --------------------------===//

#include "heddle/Solver/Oases.h"
#include "Convert/ProfileRows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace heddle::solver {

namespace {

constexpr double kNanosecondsPerMillisecond = 1e6;
constexpr double kBytesPerMebibyte = 1024.0 * 1024.0;
constexpr double kSequenceLength = 1024;
constexpr double kUsableShare = 0.95;

/// A degree of tensor parallelism, and its profile at half of a replica's
/// batch: Oases' schedule works on the two halves of a batch in turn.
struct Choice {
  OasesProfileRow half;
  double batch; ///< The batch of both halves together.

  // Node i is attention if even, MLP if odd.
  double forward(int64_t node) const {
    return node % 2 ? half.mlpForward : half.attentionForward;
  }
  /// The backward pass with the recomputation of the forward pass.
  double backward(int64_t node) const {
    return forward(node) +
           (node % 2 ? half.mlpBackward : half.attentionBackward);
  }
  /// The backward pass without recomputation.
  double gradient(int64_t node) const {
    return node % 2 ? half.mlpBackward : half.attentionBackward;
  }
};

/// The time of a node, forward and backward. Each collective of the node
/// overlaps its own or the next node's computation on the other half of the
/// batch. As in the released planner, the collectives of the first node are not
/// counted, and two of the last node's overlap nothing.
double nodeMilliseconds(const Choice &c, int64_t node, int64_t nodes) {
  double comm = c.half.allReduce;
  if (node == 0)
    return c.forward(0) + c.gradient(0);
  if (node + 1 == nodes)
    return std::max(c.forward(node), comm) + std::max(c.backward(node), comm) +
           2 * comm;
  return std::max(c.forward(node), comm) + std::max(c.forward(node + 1), comm) +
         std::max(c.backward(node), comm) +
         std::max(c.backward(node + 1), comm);
}

/// The time to bring activations from a node's degree to the next node's
/// degree.
double reshardMilliseconds(const Choice &from, const Choice &to, int64_t node) {
  auto j = static_cast<double>(from.half.degree);
  auto k = static_cast<double>(to.half.degree);
  if (j == k)
    return 0;
  double comm = from.half.allReduce;
  if (k > j)
    return k / j * comm + std::min(comm, to.forward(node + 1));
  return j / k * to.half.allReduce + std::min(comm, to.gradient(node + 1));
}

/// The bytes of kept activations and of parameters with gradients and optimizer
/// state. The last node also has the memory that a layer needs while it runs.
double nodeBytes(const Choice &c, int64_t node, int64_t nodes) {
  auto h = static_cast<double>(c.half.hidden);
  auto t = static_cast<double>(c.half.degree);
  double parameters =
      node % 2 ? 4 * (8 * h * h / t + 7 * h) : 4 * (4 * h * h / t + 6 * h);
  double bytes = 12 * c.batch * kSequenceLength * h + 5 * parameters;
  if (node + 1 == nodes)
    bytes += c.half.runtimeMebibytes * kBytesPerMebibyte;
  return bytes;
}

Cost nanoseconds(double milliseconds) {
  return std::llround(milliseconds * kNanosecondsPerMillisecond);
}

/// The degrees for which the profile has the required batch, ascending.
std::vector<Choice> choicesOf(const std::vector<OasesProfileRow> &profile,
                              const OasesOptions &o) {
  std::map<int64_t, Choice> byDegree;
  for (const OasesProfileRow &r : profile) {
    bool matches = r.hidden == o.hidden && r.degree > 0 &&
                   r.degree <= o.devices &&
                   2 * r.batch * o.devices == o.globalBatch * r.degree;
    bool complete = r.attentionForward > 0 && r.attentionBackward > 0 &&
                    r.mlpForward > 0 && r.mlpBackward > 0 && r.allReduce > 0;
    if (matches && complete)
      byDegree[r.degree] = {r, 2.0 * static_cast<double>(r.batch)};
  }
  std::vector<Choice> choices;
  choices.reserve(byDegree.size());
  for (const auto &[degree, c] : byDegree)
    choices.push_back(c);
  return choices;
}

llvm::Error noChoice(const std::vector<OasesProfileRow> &profile,
                     const OasesOptions &o) {
  std::set<int64_t> fitting;
  for (const OasesProfileRow &r : profile)
    if (r.hidden == o.hidden && r.degree > 0 && r.degree <= o.devices &&
        2 * r.batch * o.devices % r.degree == 0)
      fitting.insert(2 * r.batch * o.devices / r.degree);
  std::string list;
  for (int64_t batch : fitting)
    list += (list.empty() ? "" : ", ") + std::to_string(batch);
  return llvm::createStringError(
      "global batch: expected one of which the profile has half of "
      "each replica's rows, for hidden " +
      std::to_string(o.hidden) + " on " + std::to_string(o.devices) +
      " devices (" + (list.empty() ? "there is none" : list) + "), got " +
      std::to_string(o.globalBatch));
}

} // namespace

llvm::Expected<std::vector<OasesProfileRow>>
parseOasesProfile(std::string_view json) {
  std::vector<OasesProfileRow> rows;
  llvm::Error failure = readProfileRows(json, [&](ProfileRow &row) {
    OasesProfileRow r;
    r.hidden = row.integer("hidden");
    r.degree = row.integer("tensor_parallel");
    r.batch = row.integer("batch");
    r.attentionForward = row.number("attn_forward_ms", 1e9);
    r.attentionBackward = row.number("attn_backward_ms", 1e9);
    r.mlpForward = row.number("mlp_forward_ms", 1e9);
    r.mlpBackward = row.number("mlp_backward_ms", 1e9);
    r.allReduce = row.number("all_reduce_ms", 1e9);
    r.runtimeMebibytes = row.number("runtime_memory_mib", 1e9);
    rows.push_back(r);
  });
  if (failure)
    return failure;
  return rows;
}

llvm::Expected<OasesProblem>
oasesProblem(const std::vector<OasesProfileRow> &profile,
             const OasesOptions &o) {
  if (o.layers < 1)
    return llvm::createStringError("layers: expected at least 1, got " +
                                   std::to_string(o.layers));
  std::vector<Choice> choices = choicesOf(profile, o);
  if (choices.empty())
    return noChoice(profile, o);
  OasesProblem result;
  for (const Choice &c : choices)
    result.degrees.push_back(c.half.degree);
  Problem &p = result.instance;
  p.name = "oases-hidden" + std::to_string(o.hidden) + "-batch" +
           std::to_string(o.globalBatch);
  int64_t nodes = 2 * o.layers;
  for (int64_t i = 0; i < nodes; ++i) {
    Node n;
    n.live = {0, 1};
    for (const Choice &c : choices) {
      n.costs.push_back(nanoseconds(nodeMilliseconds(c, i, nodes)));
      n.usages.push_back(static_cast<Usage>(std::ceil(nodeBytes(c, i, nodes))));
    }
    p.nodes.push_back(std::move(n));
    if (i == 0)
      continue;
    Edge e{{static_cast<uint32_t>(i - 1), static_cast<uint32_t>(i)}, {}};
    for (const Choice &from : choices)
      for (const Choice &to : choices)
        e.costs.push_back(nanoseconds(reshardMilliseconds(from, to, i - 1)));
    p.edges.push_back(std::move(e));
  }
  p.usageLimit =
      static_cast<Usage>(kUsableShare * o.deviceMebibytes * kBytesPerMebibyte);
  return result;
}

Assignment collapseOasesPlan(const OasesProblem &p, const Assignment &plan) {
  std::vector<size_t> count(p.degrees.size(), 0);
  for (int32_t s : plan)
    ++count[s];
  std::vector<int32_t> byCount(count.size());
  for (size_t s = 0; s < count.size(); ++s)
    byCount[s] = static_cast<int32_t>(s);
  std::ranges::sort(byCount, [&](int32_t a, int32_t b) {
    return count[a] != count[b] ? count[a] > count[b] : a < b;
  });
  int32_t first = byCount[0];
  int32_t second =
      byCount.size() > 1 && count[byCount[1]] > 0 ? byCount[1] : first;
  int32_t smaller = std::min(first, second), larger = std::max(first, second);
  size_t both = smaller == larger ? count[first] : count[first] + count[second];
  double share =
      static_cast<double>(count[smaller]) / static_cast<double>(both);
  size_t layers = plan.size() / 2;
  auto cutpoint =
      static_cast<size_t>(std::lround(share * static_cast<double>(layers)));
  Assignment collapsed;
  for (size_t i = 0; i < plan.size(); ++i)
    collapsed.push_back(i / 2 < cutpoint ? smaller : larger);
  return collapsed;
}

} // namespace heddle::solver
