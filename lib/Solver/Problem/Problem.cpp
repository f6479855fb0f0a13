//===- Problem.cpp - Validation and evaluation ----------------------------===//

#include "heddle/Solver/Problem.h"

#include <algorithm>
#include <limits>
#include <map>

namespace heddle::solver {

namespace {

std::string at(const char *field, size_t index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

llvm::Error validateNode(const Node &n, size_t index) {
  const Interval &i = n.live;
  if (i.begin < 0 || i.end < i.begin)
    return llvm::createStringError(
        at("nodes.intervals", index) + ": expected 0 <= begin <= end, got [" +
        std::to_string(i.begin) + ", " + std::to_string(i.end) + "]");
  if (n.costs.empty())
    return llvm::createStringError(
        at("nodes.costs", index) +
        ": expected at least one strategy, got none");
  if (n.costs.size() > std::numeric_limits<int32_t>::max())
    return llvm::createStringError(at("nodes.costs", index) +
                                   ": expected fewer strategies");
  if (n.usages.size() != n.costs.size())
    return llvm::createStringError(at("nodes.usages", index) + ": expected " +
                                   std::to_string(n.costs.size()) +
                                   " entries as in nodes.costs, got " +
                                   std::to_string(n.usages.size()));
  for (size_t s = 0; s < n.costs.size(); ++s) {
    if (n.costs[s] < 0)
      return llvm::createStringError(at(at("nodes.costs", index).c_str(), s) +
                                     ": expected a cost of at least 0, got " +
                                     std::to_string(n.costs[s]));
    if (n.usages[s] < 0)
      return llvm::createStringError(at(at("nodes.usages", index).c_str(), s) +
                                     ": expected a usage of at least 0, got " +
                                     std::to_string(n.usages[s]));
  }
  return llvm::Error::success();
}

llvm::Error validateEdge(const Problem &p, size_t index) {
  const Edge &e = p.edges[index];
  if (e.nodes.empty())
    return llvm::createStringError(at("edges.nodes", index) +
                                   ": expected at least one node, got none");
  size_t entries = 1;
  for (uint32_t n : e.nodes) {
    if (n >= p.nodes.size())
      return llvm::createStringError(
          at("edges.nodes", index) + ": expected a node below " +
          std::to_string(p.nodes.size()) + ", got " + std::to_string(n));
    if (__builtin_mul_overflow(entries, p.nodes[n].costs.size(), &entries))
      return llvm::createStringError(
          at("edges.nodes", index) +
          ": expected a table that fits memory, got one whose size "
          "overflows 64 bits");
  }
  if (e.costs.size() != entries)
    return llvm::createStringError(
        at("edges.costs", index) + ": expected " + std::to_string(entries) +
        " entries, the product of its nodes' strategies, got " +
        std::to_string(e.costs.size()));
  for (size_t i = 0; i < entries; ++i)
    if (e.costs[i] < 0)
      return llvm::createStringError(at(at("edges.costs", index).c_str(), i) +
                                     ": expected a cost of at least 0, got " +
                                     std::to_string(e.costs[i]));
  return llvm::Error::success();
}

/// By time: how much the sum of usages changes. It changes only where an
/// interval begins or ends.
using UsageSteps = std::map<int64_t, __int128>;

void addUsage(UsageSteps &steps, const Interval &live, Usage amount) {
  if (live.empty())
    return;
  steps[live.begin] += amount;
  steps[live.end] -= amount;
}

} // namespace

llvm::Error validate(const Problem &p) {
  if (p.nodes.size() > std::numeric_limits<int32_t>::max())
    return llvm::createStringError(
        "nodes.intervals: expected fewer than 2^31 nodes, got " +
        std::to_string(p.nodes.size()));
  UsageSteps largest;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    if (llvm::Error e = validateNode(p.nodes[i], i))
      return e;
    const Node &n = p.nodes[i];
    addUsage(largest, n.live, *std::ranges::max_element(n.usages));
  }
  __int128 sum = 0;
  for (const auto &[time, step] : largest) {
    sum += step;
    if (sum > std::numeric_limits<Usage>::max())
      return llvm::createStringError(
          "nodes.usages: expected sums that fit 64 bits, got an "
          "overflow at time " +
          std::to_string(time));
  }
  for (size_t i = 0; i < p.edges.size(); ++i)
    if (llvm::Error e = validateEdge(p, i))
      return e;
  if (p.usageLimit && *p.usageLimit < 0)
    return llvm::createStringError("usage_limit: expected at least 0, got " +
                                   std::to_string(*p.usageLimit));
  return llvm::Error::success();
}

llvm::Expected<Evaluation> evaluate(const Problem &p, const Assignment &a) {
  if (a.size() != p.nodes.size())
    return llvm::createStringError(
        "assignment: expected " + std::to_string(p.nodes.size()) +
        " entries, one per node, got " + std::to_string(a.size()));
  Evaluation result;
  UsageSteps steps;
  for (size_t i = 0; i < a.size(); ++i) {
    const Node &n = p.nodes[i];
    if (a[i] < 0 || static_cast<size_t>(a[i]) >= n.costs.size())
      return llvm::createStringError(
          at("assignment", i) + ": expected a strategy below " +
          std::to_string(n.costs.size()) + ", got " + std::to_string(a[i]));
    result.total =
        addCosts(result.total, std::min(n.costs[a[i]], kInfiniteCost));
    addUsage(steps, n.live, n.usages[a[i]]);
  }
  for (const Edge &e : p.edges) {
    size_t entry = 0;
    for (uint32_t n : e.nodes)
      entry = entry * p.nodes[n].costs.size() + a[n];
    result.total =
        addCosts(result.total, std::min(e.costs[entry], kInfiniteCost));
  }
  __int128 sum = 0;
  for (const auto &[time, step] : steps) {
    sum += step;
    if (sum > result.peakUsage) {
      result.peakUsage = static_cast<Usage>(sum);
      result.peakTime = time;
    }
  }
  result.withinLimit = !p.usageLimit || result.peakUsage <= *p.usageLimit;
  return result;
}

} // namespace heddle::solver
