//===- ListScheduler.cpp - An order for units on queues -------------------===//

#include "ListScheduler.h"
#include "heddle/Support/Random.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>

using namespace llvm;
using namespace heddle;

//===----------------------------------------------------------------------===//
// One schedule from one list
//===----------------------------------------------------------------------===//

namespace {
/// Plays the program forward in time.
class Player {
public:
  Player(const UnitGraph &graph, ArrayRef<double> rank,
         const ScheduleLimits &limits);

  Schedule play();

private:
  using Entry = std::pair<double, int32_t>; // rank and unit

  void release(int32_t unit);
  void fill(int32_t queue);
  /// Returns whether a unit that runs ahead would exceed a limit.
  bool mustWait(int32_t unit) const;
  /// Starts a unit that must wait, because nothing else can run. Returns false
  /// if there is none.
  bool force();
  /// Returns the bytes that become live when the unit starts.
  int64_t getGrowth(int32_t unit) const;
  void begin(int32_t unit);
  void end(int32_t unit);

  const UnitGraph &graph;
  ArrayRef<double> rank;
  ScheduleLimits limits;
  std::vector<SmallVector<int32_t, 4>> before; // the reverse of Unit::after
  std::vector<SmallVector<int32_t, 2>> writes, reads; // buffers of a unit
  std::vector<int32_t> waitsFor, readersLeft;
  std::vector<bool> isAwaited; // by buffer: written ahead, not yet read
  std::vector<std::set<Entry>> ready, readyAhead; // by queue
  std::vector<bool> isBusy;                       // by queue
  /// The ends of the units that run.
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> running;
  double now = 0;
  int64_t liveBytes = 0, aheadBytes = 0;
  Schedule schedule;
};
} // namespace

Player::Player(const UnitGraph &graph, ArrayRef<double> rank,
               const ScheduleLimits &limits)
    : graph(graph), rank(rank), limits(limits), before(graph.units.size()),
      writes(graph.units.size()), reads(graph.units.size()),
      waitsFor(graph.units.size()), readersLeft(graph.buffers.size()),
      isAwaited(graph.buffers.size()), ready(graph.queues),
      readyAhead(graph.queues), isBusy(graph.queues) {
  for (auto [number, unit] : llvm::enumerate(graph.units)) {
    waitsFor[number] = unit.after.size();
    for (int32_t earlier : unit.after)
      before[earlier].push_back(number);
  }
  for (auto [number, buffer] : llvm::enumerate(graph.buffers)) {
    writes[buffer.writer].push_back(number);
    readersLeft[number] = buffer.readers.size();
    for (int32_t reader : buffer.readers)
      reads[reader].push_back(number);
  }
  schedule.start.resize(graph.units.size());
}

void Player::release(int32_t unit) {
  const Unit &it = graph.units[unit];
  (it.isAhead ? readyAhead : ready)[it.queue].insert({rank[unit], unit});
}

int64_t Player::getGrowth(int32_t unit) const {
  int64_t bytes = 0;
  for (int32_t buffer : writes[unit])
    bytes += graph.buffers[buffer].bytes;
  return bytes;
}

void Player::begin(int32_t unit) {
  schedule.start[unit] = now;
  schedule.order.push_back(unit);
  for (int32_t buffer : reads[unit])
    if (isAwaited[buffer]) {
      isAwaited[buffer] = false;
      aheadBytes -= graph.buffers[buffer].bytes;
    }
  if (graph.units[unit].isAhead)
    for (int32_t buffer : writes[unit]) {
      isAwaited[buffer] = true;
      aheadBytes += graph.buffers[buffer].bytes;
    }
  liveBytes += getGrowth(unit);
  schedule.peakBytes = std::max(schedule.peakBytes, liveBytes);
  isBusy[graph.units[unit].queue] = true;
  running.push({now + graph.units[unit].seconds, unit});
}

void Player::end(int32_t unit) {
  isBusy[graph.units[unit].queue] = false;
  for (int32_t buffer : writes[unit])
    if (graph.buffers[buffer].readers.empty())
      liveBytes -= graph.buffers[buffer].bytes;
  for (int32_t buffer : reads[unit])
    if (--readersLeft[buffer] == 0)
      liveBytes -= graph.buffers[buffer].bytes;
  for (int32_t later : before[unit])
    if (--waitsFor[later] == 0)
      release(later);
}

bool Player::mustWait(int32_t unit) const {
  int64_t growth = getGrowth(unit);
  return (aheadBytes > 0 && aheadBytes + growth > limits.aheadBytes) ||
         liveBytes + growth > limits.liveBytes;
}

bool Player::force() {
  for (std::set<Entry> &waiting : readyAhead)
    if (!waiting.empty()) {
      begin(waiting.begin()->second);
      waiting.erase(waiting.begin());
      return true;
    }
  return false;
}

void Player::fill(int32_t queue) {
  std::set<Entry> &waiting = ready[queue];
  if (isBusy[queue])
    return;
  // Only the first unit that could run ahead is looked at: later ones serve
  // later readers.
  if (std::set<Entry> &ahead = readyAhead[queue];
      !ahead.empty() &&
      (waiting.empty() || *ahead.begin() < *waiting.begin()) &&
      !mustWait(ahead.begin()->second)) {
    begin(ahead.begin()->second);
    ahead.erase(ahead.begin());
    return;
  }
  if (waiting.empty())
    return;
  auto chosen = waiting.begin();
  // Beyond the limit, prefers the unit that needs the least memory. Looks at
  // few units, so that the time stays linear.
  if (liveBytes + getGrowth(chosen->second) > limits.liveBytes) {
    constexpr int kLooks = 32;
    int64_t least = getGrowth(chosen->second);
    int looks = 0;
    for (auto it = std::next(chosen); it != waiting.end() && looks < kLooks &&
                                      liveBytes + least > limits.liveBytes;
         ++it, ++looks)
      if (int64_t growth = getGrowth(it->second); growth < least) {
        least = growth;
        chosen = it;
      }
  }
  int32_t unit = chosen->second;
  waiting.erase(chosen);
  begin(unit);
}

Schedule Player::play() {
  for (size_t unit = 0; unit < graph.units.size(); ++unit)
    if (waitsFor[unit] == 0)
      release(unit);
  while (true) {
    for (int32_t queue = 0; queue < graph.queues; ++queue)
      fill(queue);
    if (running.empty() && !force())
      break;
    now = running.top().first;
    // All units that end now, so that a queue chooses among all that follow.
    while (!running.empty() && running.top().first == now) {
      int32_t unit = running.top().second;
      running.pop();
      end(unit);
    }
  }
  schedule.seconds = now;
  return std::move(schedule);
}

Schedule heddle::scheduleByRank(const UnitGraph &graph, ArrayRef<double> rank,
                                const ScheduleLimits &limits) {
  return Player(graph, rank, limits).play();
}

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

/// Returns for each unit the longest chain of seconds from its start to the
/// end of the program.
static std::vector<double> getLongestPaths(const UnitGraph &graph) {
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

Schedule heddle::findSchedule(const UnitGraph &graph,
                              const ScheduleOptions &options) {
  size_t count = graph.units.size();
  double enough = getBounds(graph).get() * (1 + options.tolerance);
  Schedule best;
  std::vector<double> bestRank;
  auto attempt = [&](std::vector<double> rank) {
    Schedule found = scheduleByRank(graph, rank, options.limits);
    if (bestRank.empty() || isBetter(found, best, options.limits)) {
      best = std::move(found);
      bestRank = std::move(rank);
    }
  };

  // The order of the text keeps memory small. The longest path first keeps
  // queues busy. The greatest depth first lets one part of the batch run ahead:
  // its backward pass is then beside the forward pass of another part. In
  // turns, all parts are in the same layer.
  std::vector<double> rank(count);
  std::iota(rank.begin(), rank.end(), 0);
  attempt(rank);
  attempt(getTurns(graph));
  for (std::vector<double> greatest :
       {getLongestPaths(graph), getDepths(graph)}) {
    std::transform(greatest.begin(), greatest.end(), rank.begin(),
                   std::negate<>());
    attempt(rank);
  }

  // Ranks become positions in the best schedule. Then a run of units moves to
  // an earlier or later position.
  Random random(options.seed);
  for (int64_t i = 4; i < options.tries && count > 1; ++i) {
    if (best.seconds <= enough && best.peakBytes <= options.limits.liveBytes)
      break;
    for (auto [position, unit] : llvm::enumerate(best.order))
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
