//===- LaggingParts.cpp - Lists in which parts of a batch lag -------------===//

#include "LaggingParts.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <map>

using namespace heddle;
using llvm::ArrayRef;

/// Returns the part of the batch that each unit belongs to, numbered from 0. A
/// unit belongs to the same part as the deepest of the units that it follows,
/// not counting those that run ahead. A part that would have few units, such as
/// those that prepare tables, counts as part 0.
static std::vector<int32_t> getParts(const UnitGraph &graph,
                                     ArrayRef<double> depths) {
  size_t count = graph.units.size();
  std::vector<int32_t> first(count), sizes(count), part(count);
  for (auto [number, unit] : llvm::enumerate(graph.units)) {
    first[number] = static_cast<int32_t>(number);
    double latest = -1;
    for (int32_t earlier : unit.after)
      if (depths[earlier] > latest && !graph.units[earlier].isAhead) {
        latest = depths[earlier];
        first[number] = first[earlier];
      }
    ++sizes[first[number]];
  }
  constexpr size_t kSmall = 32; // of so many equal parts, each is small
  int32_t parts = 0;
  for (size_t number = 0; number < count; ++number)
    if (first[number] != static_cast<int32_t>(number))
      part[number] = part[first[number]];
    else if (sizes[number] * kSmall > count)
      part[number] = parts++;
  return part;
}

/// Returns for each unit whether it is a computation on which almost no
/// communication depends.
static std::vector<bool> findFillers(const UnitGraph &graph) {
  constexpr double kHardly = 1. / 64; // of the longest chain of collectives
  std::vector<double> awaits(graph.units.size());
  double most = 0;
  for (size_t unit = graph.units.size(); unit-- > 0;) {
    const Unit &it = graph.units[unit];
    double chain = awaits[unit] + (it.queue != 0 ? it.seconds : 0);
    most = std::max(most, chain);
    for (int32_t earlier : it.after)
      awaits[earlier] = std::max(awaits[earlier], chain);
  }
  std::vector<bool> fills;
  for (auto [unit, seconds] : llvm::zip(graph.units, awaits))
    fills.push_back(unit.queue == 0 && seconds < most * kHardly);
  return fills;
}

LaggingParts::LaggingParts(const UnitGraph &graph, ArrayRef<double> turns,
                           ArrayRef<double> depths)
    : turns(turns), part(getParts(graph, depths)), fills(findFillers(graph)) {
  for (auto [turn, number] : llvm::zip(turns, part)) {
    most = std::max(most, turn);
    parts = std::max(parts, number + 1);
  }
  std::map<std::pair<int32_t, double>, size_t> numbers;
  for (const Unit &unit : graph.units)
    kind.push_back(
        std::min(kKinds - 1,
                 numbers.try_emplace({unit.queue, unit.seconds}, numbers.size())
                     .first->second));
}

LaggingParts::Lags LaggingParts::makeLags(double lag, bool shrinks,
                                          bool defers) const {
  Lags lags{std::vector<double>(size_t(parts - 1) * kKnots),
            std::vector<double>(kKinds), defers};
  for (auto [i, knot] : llvm::enumerate(lags.knots))
    knot = lag * (shrinks ? 1 - double(i % kKnots) / (kKnots - 1) : 1);
  return lags;
}

void LaggingParts::change(Lags &lags, Random &random) {
  double size = 0.3 * std::pow(10, -3 * random.unit());
  for (uint64_t i = 0, count = 1 + random.below(3); i < count; ++i) {
    std::vector<double> &list = random.below(2) ? lags.knots : lags.kinds;
    list[random.below(list.size())] += size * (random.unit() - 0.5);
  }
}

std::vector<double> LaggingParts::getRanks(const Lags &lags) const {
  std::vector<double> rank(turns.begin(), turns.end());
  for (size_t unit = 0; unit < rank.size(); ++unit) {
    double at = turns[unit] / std::max(most, 1.) * (kKnots - 1);
    size_t knot = std::min(size_t(at), kKnots - 2);
    rank[unit] += most * lags.kinds[kind[unit]];
    for (int32_t i = 0; i < part[unit]; ++i) {
      const double *lag = &lags.knots[size_t(i) * kKnots + knot];
      rank[unit] += most * (lag[0] + (at - double(knot)) * (lag[1] - lag[0]));
    }
    if (lags.defers && fills[unit])
      rank[unit] += most * double(rank.size());
  }
  return rank;
}
