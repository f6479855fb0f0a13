//===- ListScheduler.cpp - An order for units on queues -------------------===//

#include "ListScheduler.h"
#include "Player.h"
#include "heddle/Support/Random.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace heddle;
using llvm::ArrayRef;

Schedule heddle::scheduleInSequence(const UnitGraph &graph) {
  UnitGraph chain = graph;
  chain.queues = 1;
  for (auto [number, unit] : llvm::enumerate(chain.units)) {
    unit.queue = 0;
    unit.isAhead = false;
    unit.after.clear();
    if (number > 0)
      unit.after.push_back(number - 1);
  }
  std::vector<double> rank(graph.units.size());
  std::iota(rank.begin(), rank.end(), 0);
  return scheduleByRank(chain, rank);
}

//===----------------------------------------------------------------------===//
// The best of many lists
//===----------------------------------------------------------------------===//

std::vector<double> heddle::getLongestPaths(const UnitGraph &graph) {
  std::vector<double> path(graph.units.size());
  for (size_t unit = graph.units.size(); unit-- > 0;) {
    path[unit] += graph.units[unit].seconds;
    for (int32_t earlier : graph.units[unit].after)
      path[earlier] = std::max(path[earlier], path[unit]);
  }
  return path;
}

/// Returns for each unit the longest chain of seconds from the beginning to its
/// start.
static std::vector<double> getDepths(const UnitGraph &graph) {
  std::vector<double> depth(graph.units.size());
  for (auto [number, unit] : llvm::enumerate(graph.units))
    for (int32_t earlier : unit.after)
      depth[number] = std::max(depth[number],
                               depth[earlier] + graph.units[earlier].seconds);
  return depth;
}

std::vector<double> heddle::getTurns(const UnitGraph &graph) {
  std::vector<double> turns(graph.units.size());
  for (auto [number, unit] : llvm::enumerate(graph.units))
    for (int32_t earlier : unit.after) {
      bool communicates = graph.units[earlier].queue != 0;
      turns[number] =
          std::max(turns[number], turns[earlier] + (communicates ? 1 : 0));
    }
  return turns;
}

/// Returns the part of the batch that each unit belongs to, from 0 on. A unit
/// is of the part of the latest unit that it follows. Units that lead to few
/// others, such as those of tables, are of part 0.
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

ScheduleBounds heddle::getBounds(const UnitGraph &graph) {
  std::vector<double> sums(graph.queues);
  for (const Unit &unit : graph.units)
    sums[unit.queue] += unit.seconds;
  ScheduleBounds bounds;
  bounds.computation = sums.front();
  for (double sum : llvm::drop_begin(sums))
    bounds.links = std::max(bounds.links, sum);
  for (double path : getLongestPaths(graph))
    bounds.criticalPath = std::max(bounds.criticalPath, path);
  return bounds;
}

bool heddle::isBetter(const Schedule &a, const Schedule &b,
                      const ScheduleLimits &limits) {
  auto key = [&](const Schedule &s) {
    return std::tuple(std::max<int64_t>(0, s.peakBytes - limits.liveBytes),
                      s.seconds, s.peakBytes);
  };
  return key(a) < key(b);
}

/// Lags of a part of the batch behind the part before it, over the length of
/// the program.
static constexpr double kLags[] = {0.06, 0.12, 0.18, 0.22, 0.25,
                                   0.28, 0.33, 0.38, 0.5,  0.75};

/// Returns which computations no collectives wait for, or hardly any.
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

/// Returns the best schedule found, or nullopt if all lists take more than
/// `atMost` seconds.
static std::optional<Schedule>
search(const UnitGraph &graph, const ScheduleOptions &options, double atMost) {
  size_t count = graph.units.size();
  double enough = getBounds(graph).get() * (1 + options.tolerance);
  Player player(graph, options.limits);
  std::optional<Schedule> best;
  auto attempt = [&](ArrayRef<double> rank) {
    bool fits = best && best->peakBytes <= options.limits.liveBytes;
    std::optional<Schedule> found =
        player.play(rank, fits ? best->seconds : atMost);
    if (found && (!best || isBetter(*found, *best, options.limits)))
      best = std::move(found);
  };

  // The order of the text keeps memory small. The longest path first keeps
  // queues busy. The greatest depth first lets one part of the batch run ahead:
  // its backward pass is then beside the forward pass of another part. In
  // turns, all parts are in the same layer.
  std::vector<double> rank(count);
  std::iota(rank.begin(), rank.end(), 0);
  attempt(rank);
  std::vector<double> turns = getTurns(graph), depths = getDepths(graph);
  attempt(turns);
  // Each part lags behind the one before it by some collectives. So its forward
  // pass, which communicates much, is beside the other's backward pass. A lag
  // that shrinks lets all parts end at the same time. Fillers, such as
  // gradients of weights, fill the waits for collectives.
  if (std::vector<int32_t> parts = getParts(graph, depths);
      count > 0 && *llvm::max_element(parts) > 0) {
    std::vector<bool> fills = findFillers(graph);
    double most = *llvm::max_element(turns), behind = most * double(count);
    for (bool defers : {true, false})
      for (bool shrinks : {false, true})
        for (double lag : kLags) {
          for (size_t unit = 0; unit < count; ++unit) {
            double left = shrinks ? most - turns[unit] : most;
            rank[unit] = turns[unit] + lag * left * parts[unit] +
                         (defers && fills[unit] ? behind : 0);
          }
          attempt(rank);
        }
  }
  for (std::vector<double> greatest : {getLongestPaths(graph), depths}) {
    std::transform(greatest.begin(), greatest.end(), rank.begin(),
                   std::negate<>());
    attempt(rank);
  }
  if (!best)
    return std::nullopt;

  // Ranks become positions in the best schedule. Then a run of units moves to
  // an earlier or later position.
  Random random(options.seed);
  int64_t tries = std::min<int64_t>(
      options.tries, options.starts / std::max<int64_t>(1, count));
  for (int64_t i = 0; i < tries && count > 1; ++i) {
    if (best->seconds <= enough && best->peakBytes <= options.limits.liveBytes)
      break;
    for (auto [position, unit] : llvm::enumerate(best->order))
      rank[unit] = position;
    size_t size = 1 + random.below(std::max<size_t>(1, count / 4));
    size_t first = random.below(count);
    double shift = (random.unit() - 0.5) * double(count) / 2;
    for (size_t k = first; k < std::min(first + size, count); ++k)
      rank[k] += shift;
    attempt(rank);
  }
  return best;
}

Schedule heddle::findSchedule(const UnitGraph &graph,
                              const ScheduleOptions &options) {
  return *search(graph, options, std::numeric_limits<double>::infinity());
}

std::optional<Schedule>
heddle::findShorterSchedule(const UnitGraph &graph,
                            const ScheduleOptions &options, double seconds) {
  // The search makes the best of the lists this much shorter, rarely more.
  constexpr double kGain = 1.05;
  std::optional<Schedule> found = search(graph, options, seconds * kGain);
  if (!found || found->seconds >= seconds ||
      found->peakBytes > options.limits.liveBytes)
    return std::nullopt;
  return found;
}
