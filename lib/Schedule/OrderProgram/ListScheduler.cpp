//===- ListScheduler.cpp - An order for units on queues -------------------===//

#include "ListScheduler.h"
#include "LaggingParts.h"
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

/// How far a part of the batch lags behind the part before it, as fractions of
/// the length of the program.
static constexpr double kLags[] = {0.06, 0.12, 0.18, 0.22, 0.25,
                                   0.28, 0.33, 0.38, 0.5,  0.75};

/// Returns the best schedule found, or nullopt if all lists take more than
/// `atMost` seconds.
static std::optional<Schedule>
search(const UnitGraph &graph, const ScheduleOptions &options, double atMost) {
  size_t count = graph.units.size();
  double enough = getBounds(graph).get() * (1 + options.tolerance);
  Player player(graph, options.limits);
  std::optional<Schedule> best;
  // Returns whether the schedule of a list is no worse than the best one.
  auto attempt = [&](ArrayRef<double> rank) {
    bool fits = best && best->peakBytes <= options.limits.liveBytes;
    std::optional<Schedule> found =
        player.play(rank, fits ? best->seconds : atMost);
    if (!found)
      return false;
    if (best && !isBetter(*found, *best, options.limits))
      return !isBetter(*best, *found, options.limits);
    best = std::move(found);
    return true;
  };

  // The order of the text keeps memory small. The longest path first keeps
  // queues busy. The greatest depth first lets one part of the batch run ahead:
  // its backward pass then runs at the same time as the forward pass of another
  // part. If the parts take turns, all are in the same layer.
  std::vector<double> rank(count);
  std::iota(rank.begin(), rank.end(), 0);
  attempt(rank);
  std::vector<double> turns = getTurns(graph), depths = getDepths(graph);
  attempt(turns);
  LaggingParts parts(graph, turns, depths);
  std::optional<LaggingParts::Lags> lags; // of the best schedule, if by any
  if (parts.getNumParts() > 1)
    for (bool defers : {true, false})
      for (bool shrinks : {false, true})
        for (double lag : kLags) {
          LaggingParts::Lags next = parts.makeLags(lag, shrinks, defers);
          if (attempt(parts.getRanks(next)))
            lags = std::move(next);
        }
  for (std::vector<double> greatest : {getLongestPaths(graph), depths}) {
    std::transform(greatest.begin(), greatest.end(), rank.begin(),
                   std::negate<>());
    double seconds = best ? best->seconds : atMost;
    if (attempt(rank) && best->seconds < seconds)
      lags.reset();
  }
  if (!best)
    return std::nullopt;

  // If the best schedule comes from lags, half of the tries change these. In
  // the other tries, ranks become positions in the best schedule, and a run of
  // units moves to an earlier or later position.
  Random random(options.seed);
  int64_t tries = std::min<int64_t>(
      options.tries, options.starts / std::max<int64_t>(1, count));
  for (int64_t i = 0; i < tries && count > 1; ++i) {
    if (best->seconds <= enough && best->peakBytes <= options.limits.liveBytes)
      break;
    if (lags && i < tries / 2) {
      LaggingParts::Lags next = *lags;
      LaggingParts::change(next, random);
      if (attempt(parts.getRanks(next)))
        lags = std::move(next);
      continue;
    }
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
  // The search seldom shortens a schedule by more than this factor, so it does
  // not start from schedules that take longer than `seconds` times the factor.
  constexpr double kGain = 1.05;
  std::optional<Schedule> found = search(graph, options, seconds * kGain);
  if (!found || found->seconds >= seconds ||
      found->peakBytes > options.limits.liveBytes)
    return std::nullopt;
  return found;
}
