//===- Components.cpp - Parts of a problem that do not meet ---------------===//

#include "Problem/Components.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>

namespace heddle::solver {

namespace {

/// Sets of nodes that have been found to meet.
class Groups {
public:
  explicit Groups(size_t Count) : Parent(Count) {
    std::iota(Parent.begin(), Parent.end(), 0u);
  }
  /// The first node of the group.
  uint32_t find(uint32_t Node) {
    while (Parent[Node] != Node)
      Node = Parent[Node] = Parent[Parent[Node]];
    return Node;
  }
  void join(uint32_t A, uint32_t B) {
    A = find(A), B = find(B);
    Parent[std::max(A, B)] = std::min(A, B);
  }

private:
  std::vector<uint32_t> Parent;
};

/// The stretches of time, ascending, in which the nodes could use more than the
/// limit together.
std::vector<Interval> timesOverLimit(const Problem &P) {
  std::map<int64_t, __int128> Steps;
  for (const Node &N : P.Nodes)
    if (!N.Live.empty()) {
      Usage Most = *std::ranges::max_element(N.Usages);
      Steps[N.Live.Begin] += Most;
      Steps[N.Live.End] -= Most;
    }
  std::vector<Interval> Result;
  __int128 Sum = 0;
  for (auto It = Steps.begin(); It != Steps.end(); ++It) {
    Sum += It->second;
    if (Sum > *P.UsageLimit) // the last sum is 0
      Result.push_back({It->first, std::next(It)->first});
  }
  return Result;
}

/// Joins the nodes that are live in the same of `Times`.
void joinByMemory(const Problem &P, const std::vector<Interval> &Times,
                  Groups &G) {
  std::vector<uint32_t> ByBegin;
  for (uint32_t N = 0; N < P.Nodes.size(); ++N)
    if (std::ranges::any_of(P.Nodes[N].Usages, [](Usage U) { return U > 0; }))
      ByBegin.push_back(N);
  std::ranges::sort(ByBegin, {}, [&](uint32_t N) {
    return std::pair(P.Nodes[N].Live.Begin, N);
  });
  std::multimap<int64_t, uint32_t> Live; // by the time of their end
  size_t Next = 0;
  for (const Interval &T : Times) {
    while (Next < ByBegin.size() &&
           P.Nodes[ByBegin[Next]].Live.Begin <= T.Begin) {
      uint32_t N = ByBegin[Next++];
      Live.emplace(P.Nodes[N].Live.End, N);
    }
    Live.erase(Live.begin(), Live.upper_bound(T.Begin));
    // All are in one group afterwards: the next time needs one of them only,
    // the one that lives longest.
    if (Live.empty())
      continue;
    uint32_t Last = std::prev(Live.end())->second;
    for (const auto &[End, N] : Live)
      G.join(N, Last);
    int64_t End = std::prev(Live.end())->first;
    Live.clear();
    Live.emplace(End, Last);
  }
}

/// A problem and the numbers of its nodes in another one.
struct Numbered {
  Problem Part;
  std::vector<uint32_t> Nodes;
};

std::vector<Numbered> split(const Problem &P, Groups &G) {
  std::vector<Numbered> Parts;
  std::vector<uint32_t> PartOf(P.Nodes.size()), NumberOf(P.Nodes.size());
  for (uint32_t N = 0; N < P.Nodes.size(); ++N) {
    uint32_t First = G.find(N);
    if (First == N) {
      PartOf[N] = static_cast<uint32_t>(Parts.size());
      Parts.emplace_back().Part.UsageLimit = P.UsageLimit;
    }
    Numbered &Own = Parts[PartOf[N] = PartOf[First]];
    NumberOf[N] = static_cast<uint32_t>(Own.Nodes.size());
    Own.Nodes.push_back(N);
    Own.Part.Nodes.push_back(P.Nodes[N]);
  }
  for (const Edge &E : P.Edges) {
    Edge &New = Parts[PartOf[E.Nodes[0]]].Part.Edges.emplace_back(E);
    for (uint32_t &N : New.Nodes)
      N = NumberOf[N];
  }
  for (Numbered &Own : Parts) {
    int64_t Start = std::numeric_limits<int64_t>::max();
    for (const Node &N : Own.Part.Nodes)
      Start = std::min(Start, N.Live.Begin);
    for (Node &N : Own.Part.Nodes)
      N.Live = {N.Live.Begin - Start, N.Live.End - Start};
  }
  return Parts;
}

bool equal(const Problem &A, const Problem &B) {
  return std::ranges::equal(A.Nodes, B.Nodes,
                            [](const Node &L, const Node &R) {
                              return L.Live == R.Live && L.Costs == R.Costs &&
                                     L.Usages == R.Usages;
                            }) &&
         std::ranges::equal(A.Edges, B.Edges, [](const Edge &L, const Edge &R) {
           return L.Nodes == R.Nodes && L.Costs == R.Costs;
         });
}

uint64_t hashOf(const Problem &P) {
  uint64_t Hash = P.Nodes.size();
  auto Add = [&](int64_t Value) {
    Hash = (Hash ^ static_cast<uint64_t>(Value)) * 0x9e3779b97f4a7c15 + 1;
  };
  for (const Node &N : P.Nodes)
    std::ranges::for_each(N.Costs, Add);
  for (const Edge &E : P.Edges)
    std::ranges::for_each(E.Costs, Add);
  return Hash;
}

} // namespace

std::vector<Component> findComponents(const Problem &P) {
  Groups G(P.Nodes.size());
  for (const Edge &E : P.Edges)
    for (uint32_t N : E.Nodes)
      G.join(E.Nodes[0], N);
  if (P.UsageLimit)
    joinByMemory(P, timesOverLimit(P), G);
  bool Whole = true;
  for (uint32_t N = 0; N < P.Nodes.size(); ++N)
    Whole &= G.find(N) == 0;
  std::vector<Component> Result;
  if (Whole)
    return Result;
  std::unordered_map<uint64_t, std::vector<size_t>> ByHash;
  for (Numbered &Own : split(P, G)) {
    auto &Alike = ByHash[hashOf(Own.Part)];
    auto Same = std::ranges::find_if(
        Alike, [&](size_t C) { return equal(Result[C].Part, Own.Part); });
    if (Same != Alike.end()) {
      Result[*Same].Nodes.push_back(std::move(Own.Nodes));
      continue;
    }
    Alike.push_back(Result.size());
    Result.push_back({std::move(Own.Part), {std::move(Own.Nodes)}});
  }
  return Result;
}

} // namespace heddle::solver
