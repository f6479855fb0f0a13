//===- Problem.cpp - Validation and evaluation ----------------------------===//

#include "heddle/Solver/Problem.h"

#include <algorithm>
#include <limits>
#include <map>

namespace heddle::solver {

namespace {

std::string at(const char *Field, size_t Index) {
  return std::string(Field) + "[" + std::to_string(Index) + "]";
}

std::optional<Error> validateNode(const Node &N, size_t Index) {
  const Interval &I = N.Live;
  if (I.Begin < 0 || I.End < I.Begin)
    return Error{at("nodes.intervals", Index) +
                 ": expected 0 <= begin <= end, got [" +
                 std::to_string(I.Begin) + ", " + std::to_string(I.End) + "]"};
  if (N.Costs.empty())
    return Error{at("nodes.costs", Index) +
                 ": expected at least one strategy, got none"};
  if (N.Costs.size() > std::numeric_limits<int32_t>::max())
    return Error{at("nodes.costs", Index) + ": expected fewer strategies"};
  if (N.Usages.size() != N.Costs.size())
    return Error{at("nodes.usages", Index) + ": expected " +
                 std::to_string(N.Costs.size()) +
                 " entries as in nodes.costs, got " +
                 std::to_string(N.Usages.size())};
  for (size_t S = 0; S < N.Costs.size(); ++S) {
    if (N.Costs[S] < 0)
      return Error{at(at("nodes.costs", Index).c_str(), S) +
                   ": expected a cost of at least 0, got " +
                   std::to_string(N.Costs[S])};
    if (N.Usages[S] < 0)
      return Error{at(at("nodes.usages", Index).c_str(), S) +
                   ": expected a usage of at least 0, got " +
                   std::to_string(N.Usages[S])};
  }
  return std::nullopt;
}

std::optional<Error> validateEdge(const Problem &P, size_t Index) {
  const Edge &E = P.Edges[Index];
  if (E.Nodes.empty())
    return Error{at("edges.nodes", Index) +
                 ": expected at least one node, got none"};
  size_t Entries = 1;
  for (uint32_t N : E.Nodes) {
    if (N >= P.Nodes.size())
      return Error{at("edges.nodes", Index) + ": expected a node below " +
                   std::to_string(P.Nodes.size()) + ", got " +
                   std::to_string(N)};
    if (__builtin_mul_overflow(Entries, P.Nodes[N].Costs.size(), &Entries))
      return Error{at("edges.nodes", Index) +
                   ": expected a table that fits memory, got one whose size "
                   "overflows 64 bits"};
  }
  if (E.Costs.size() != Entries)
    return Error{at("edges.costs", Index) + ": expected " +
                 std::to_string(Entries) +
                 " entries, the product of its nodes' strategies, got " +
                 std::to_string(E.Costs.size())};
  for (size_t I = 0; I < Entries; ++I)
    if (E.Costs[I] < 0)
      return Error{at(at("edges.costs", Index).c_str(), I) +
                   ": expected a cost of at least 0, got " +
                   std::to_string(E.Costs[I])};
  return std::nullopt;
}

/// The sum of usages changes only where an interval begins or ends.
using UsageSteps = std::map<int64_t, __int128>;

void addUsage(UsageSteps &Steps, const Interval &Live, Usage Amount) {
  if (Live.empty())
    return;
  Steps[Live.Begin] += Amount;
  Steps[Live.End] -= Amount;
}

} // namespace

std::optional<Error> validate(const Problem &P) {
  if (P.Nodes.size() > std::numeric_limits<int32_t>::max())
    return Error{"nodes.intervals: expected fewer than 2^31 nodes, got " +
                 std::to_string(P.Nodes.size())};
  UsageSteps Largest;
  for (size_t I = 0; I < P.Nodes.size(); ++I) {
    if (auto E = validateNode(P.Nodes[I], I))
      return E;
    const Node &N = P.Nodes[I];
    addUsage(Largest, N.Live, *std::ranges::max_element(N.Usages));
  }
  __int128 Sum = 0;
  for (const auto &[Time, Step] : Largest) {
    Sum += Step;
    if (Sum > std::numeric_limits<Usage>::max())
      return Error{"nodes.usages: expected sums that fit 64 bits, got an "
                   "overflow at time " +
                   std::to_string(Time)};
  }
  for (size_t I = 0; I < P.Edges.size(); ++I)
    if (auto E = validateEdge(P, I))
      return E;
  if (P.UsageLimit && *P.UsageLimit < 0)
    return Error{"usage_limit: expected at least 0, got " +
                 std::to_string(*P.UsageLimit)};
  return std::nullopt;
}

Expected<Evaluation> evaluate(const Problem &P, const Assignment &A) {
  if (A.size() != P.Nodes.size())
    return Error{"assignment: expected " + std::to_string(P.Nodes.size()) +
                 " entries, one per node, got " + std::to_string(A.size())};
  Evaluation Result;
  UsageSteps Steps;
  for (size_t I = 0; I < A.size(); ++I) {
    const Node &N = P.Nodes[I];
    if (A[I] < 0 || static_cast<size_t>(A[I]) >= N.Costs.size())
      return Error{at("assignment", I) + ": expected a strategy below " +
                   std::to_string(N.Costs.size()) + ", got " +
                   std::to_string(A[I])};
    Result.Total =
        addCosts(Result.Total, std::min(N.Costs[A[I]], InfiniteCost));
    addUsage(Steps, N.Live, N.Usages[A[I]]);
  }
  for (const Edge &E : P.Edges) {
    size_t Entry = 0;
    for (uint32_t N : E.Nodes)
      Entry = Entry * P.Nodes[N].Costs.size() + A[N];
    Result.Total =
        addCosts(Result.Total, std::min(E.Costs[Entry], InfiniteCost));
  }
  __int128 Sum = 0;
  for (const auto &[Time, Step] : Steps) {
    Sum += Step;
    if (Sum > Result.PeakUsage) {
      Result.PeakUsage = static_cast<Usage>(Sum);
      Result.PeakTime = Time;
    }
  }
  Result.WithinLimit = !P.UsageLimit || Result.PeakUsage <= *P.UsageLimit;
  return Result;
}

} // namespace heddle::solver
