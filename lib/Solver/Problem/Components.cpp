//===- Components.cpp - Independent parts of a problem --------------------===//

#include "Problem/Components.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>

namespace heddle::solver {

namespace {

/// Disjoint sets of nodes (union-find) that are joined step by step.
class Groups {
public:
  explicit Groups(size_t count) : parent(count) {
    std::iota(parent.begin(), parent.end(), 0u);
  }
  /// The first node of the group that `node` is in.
  uint32_t find(uint32_t node) {
    while (parent[node] != node)
      node = parent[node] = parent[parent[node]];
    return node;
  }
  void join(uint32_t a, uint32_t b) {
    a = find(a), b = find(b);
    parent[std::max(a, b)] = std::min(a, b);
  }

private:
  std::vector<uint32_t> parent;
};

/// The stretches of time, ascending, in which the nodes together could use more
/// than the limit.
std::vector<Interval> timesOverLimit(const Problem &p) {
  std::map<int64_t, __int128> steps;
  for (const Node &n : p.nodes)
    if (!n.live.empty()) {
      Usage most = *std::ranges::max_element(n.usages);
      steps[n.live.begin] += most;
      steps[n.live.end] -= most;
    }
  std::vector<Interval> result;
  __int128 sum = 0;
  for (auto it = steps.begin(); it != steps.end(); ++it) {
    sum += it->second;
    if (sum > *p.usageLimit) // the last sum is 0
      result.push_back({it->first, std::next(it)->first});
  }
  return result;
}

/// Joins the nodes that are live at the same time, if it is in one of `times`.
void joinByMemory(const Problem &p, const std::vector<Interval> &times,
                  Groups &g) {
  std::vector<uint32_t> byBegin;
  for (uint32_t n = 0; n < p.nodes.size(); ++n)
    if (std::ranges::any_of(p.nodes[n].usages, [](Usage u) { return u > 0; }))
      byBegin.push_back(n);
  std::ranges::sort(byBegin, {}, [&](uint32_t n) {
    return std::pair(p.nodes[n].live.begin, n);
  });
  std::multimap<int64_t, uint32_t> live; // by the time of their end
  size_t next = 0;
  for (const Interval &t : times) {
    while (next < byBegin.size() &&
           p.nodes[byBegin[next]].live.begin <= t.begin) {
      uint32_t n = byBegin[next++];
      live.emplace(p.nodes[n].live.end, n);
    }
    live.erase(live.begin(), live.upper_bound(t.begin));
    // All live nodes are in one group afterwards. To join the nodes of the next
    // stretch to this group, the node that lives longest is enough.
    if (live.empty())
      continue;
    uint32_t last = std::prev(live.end())->second;
    for (const auto &[end, n] : live)
      g.join(n, last);
    int64_t end = std::prev(live.end())->first;
    live.clear();
    live.emplace(end, last);
  }
}

/// A part, and for each of its nodes the node of the whole problem.
struct Numbered {
  Problem part;
  std::vector<uint32_t> nodes;
};

std::vector<Numbered> split(const Problem &p, Groups &g) {
  std::vector<Numbered> parts;
  std::vector<uint32_t> partOf(p.nodes.size()), numberOf(p.nodes.size());
  for (uint32_t n = 0; n < p.nodes.size(); ++n) {
    uint32_t first = g.find(n);
    if (first == n) {
      partOf[n] = static_cast<uint32_t>(parts.size());
      parts.emplace_back().part.usageLimit = p.usageLimit;
    }
    Numbered &own = parts[partOf[n] = partOf[first]];
    numberOf[n] = static_cast<uint32_t>(own.nodes.size());
    own.nodes.push_back(n);
    own.part.nodes.push_back(p.nodes[n]);
  }
  for (const Edge &e : p.edges) {
    Edge &fresh = parts[partOf[e.nodes[0]]].part.edges.emplace_back(e);
    for (uint32_t &n : fresh.nodes)
      n = numberOf[n];
  }
  for (Numbered &own : parts) {
    int64_t start = std::numeric_limits<int64_t>::max();
    for (const Node &n : own.part.nodes)
      start = std::min(start, n.live.begin);
    for (Node &n : own.part.nodes)
      n.live = {n.live.begin - start, n.live.end - start};
  }
  return parts;
}

bool equal(const Problem &a, const Problem &b) {
  return std::ranges::equal(a.nodes, b.nodes,
                            [](const Node &l, const Node &r) {
                              return l.live == r.live && l.costs == r.costs &&
                                     l.usages == r.usages;
                            }) &&
         std::ranges::equal(a.edges, b.edges, [](const Edge &l, const Edge &r) {
           return l.nodes == r.nodes && l.costs == r.costs;
         });
}

uint64_t hashOf(const Problem &p) {
  uint64_t hash = p.nodes.size();
  auto add = [&](int64_t value) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15 + 1;
  };
  for (const Node &n : p.nodes)
    std::ranges::for_each(n.costs, add);
  for (const Edge &e : p.edges)
    std::ranges::for_each(e.costs, add);
  return hash;
}

} // namespace

std::vector<Component> findComponents(const Problem &p) {
  Groups g(p.nodes.size());
  for (const Edge &e : p.edges)
    for (uint32_t n : e.nodes)
      g.join(e.nodes[0], n);
  if (p.usageLimit)
    joinByMemory(p, timesOverLimit(p), g);
  bool whole = true;
  for (uint32_t n = 0; n < p.nodes.size(); ++n)
    whole &= g.find(n) == 0;
  std::vector<Component> result;
  if (whole)
    return result;
  std::unordered_map<uint64_t, std::vector<size_t>> byHash;
  for (Numbered &own : split(p, g)) {
    auto &alike = byHash[hashOf(own.part)];
    auto same = std::ranges::find_if(
        alike, [&](size_t c) { return equal(result[c].part, own.part); });
    if (same != alike.end()) {
      result[*same].nodes.push_back(std::move(own.nodes));
      continue;
    }
    alike.push_back(result.size());
    result.push_back({std::move(own.part), {std::move(own.nodes)}});
  }
  return result;
}

} // namespace heddle::solver
