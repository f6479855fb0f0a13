//===- Player.cpp - Plays a program forward in time -----------------------===//

#include "Player.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace heddle;
using llvm::ArrayRef;
using llvm::SmallVector;

namespace {
/// Sums of the same seconds in other orders differ in the last bits.
constexpr double kRounding = 1 + 1e-9;
} // namespace

Player::Player(const UnitGraph &graph, const ScheduleLimits &limits)
    : graph(graph), limits(limits),
      before(graph.units.size(),
             [&](auto add) {
               for (auto [number, unit] : llvm::enumerate(graph.units))
                 for (int32_t earlier : unit.after)
                   add(earlier, number);
             }),
      writes(graph.units.size(),
             [&](auto add) {
               for (auto [number, buffer] : llvm::enumerate(graph.buffers))
                 add(buffer.writer, number);
             }),
      reads(graph.units.size(),
            [&](auto add) {
              for (auto [number, buffer] : llvm::enumerate(graph.buffers))
                for (int32_t reader : buffer.readers)
                  add(reader, number);
            }),
      path(getLongestPaths(graph)), growth(graph.units.size()),
      work(graph.queues) {
  for (const UnitBuffer &buffer : graph.buffers)
    growth[buffer.writer] += buffer.bytes;
  for (const Unit &unit : graph.units)
    work[unit.queue] += unit.seconds;
}

void Player::reset() {
  size_t count = graph.units.size();
  waitsFor.resize(count);
  for (auto [number, unit] : llvm::enumerate(graph.units))
    waitsFor[number] = static_cast<int32_t>(unit.after.size());
  readersLeft.resize(graph.buffers.size());
  for (auto [number, buffer] : llvm::enumerate(graph.buffers))
    readersLeft[number] = static_cast<int32_t>(buffer.readers.size());
  isAwaited.assign(graph.buffers.size(), false);
  queues.resize(graph.queues);
  for (auto [queue, seconds] : llvm::zip(queues, work)) {
    queue.ready.clear();
    queue.readyAhead.clear();
    queue.runs = -1;
    queue.workLeft = seconds;
  }
  now = 0;
  liveBytes = aheadBytes = 0;
  isTooLong = false;
  schedule = Schedule();
  schedule.start.resize(count);
  schedule.order.reserve(count);
}

void Player::release(int32_t unit) {
  const Unit &it = graph.units[unit];
  Queue &queue = queues[it.queue];
  Heap &heap = it.isAhead ? queue.readyAhead : queue.ready;
  heap.push_back({rank[unit], unit});
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

/// Removes the first entry and returns its unit.
template <typename Heap> static int32_t pop(Heap &heap) {
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  int32_t unit = heap.back().second;
  heap.pop_back();
  return unit;
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
  liveBytes += growth[unit];
  schedule.peakBytes = std::max(schedule.peakBytes, liveBytes);
  const Unit &it = graph.units[unit];
  Queue &queue = queues[it.queue];
  // At best, the queue is never idle from here on.
  isTooLong |= now + std::max(queue.workLeft, path[unit]) > atMost;
  queue.runs = unit;
  queue.end = now + it.seconds;
  if (it.queue == 0) {
    secondsLeft = it.seconds;
    pace = 1;
    paceSince = now;
  }
  queue.workLeft -= it.seconds;
}

void Player::end(int32_t unit) {
  queues[graph.units[unit].queue].runs = -1;
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

void Player::setPace() {
  Queue &computing = queues.front();
  if (computing.runs < 0)
    return;
  double load = 0;
  for (const Queue &queue : llvm::drop_begin(queues))
    if (queue.runs >= 0)
      load = std::max(load, graph.units[queue.runs].load);
  double next = 1 + (graph.units[computing.runs].slowdown - 1) * load;
  if (next == pace)
    return;
  secondsLeft = std::max(0.0, secondsLeft - (now - paceSince) / pace);
  pace = next;
  paceSince = now;
  computing.end = now + secondsLeft * pace;
}

bool Player::mustWait(int32_t unit) const {
  return (aheadBytes > 0 && aheadBytes + growth[unit] > limits.aheadBytes) ||
         liveBytes + growth[unit] > limits.liveBytes;
}

bool Player::force() {
  for (Queue &queue : queues)
    if (!queue.readyAhead.empty()) {
      begin(pop(queue.readyAhead));
      return true;
    }
  return false;
}

/// Removes the entry at an index of a heap, and returns its unit.
template <typename Heap> static int32_t removeAt(Heap &heap, size_t index) {
  int32_t unit = heap[index].second;
  heap[index] = heap.back();
  heap.pop_back();
  if (index == heap.size())
    return unit;
  // The entry that filled the place goes up or down.
  std::push_heap(heap.begin(), heap.begin() + index + 1, std::greater<>());
  for (size_t child; (child = 2 * index + 1) < heap.size(); index = child) {
    if (child + 1 < heap.size() && heap[child + 1] < heap[child])
      ++child;
    if (!(heap[child] < heap[index]))
      break;
    std::swap(heap[child], heap[index]);
  }
  return unit;
}

int32_t Player::take(Heap &ready) {
  if (liveBytes + growth[ready.front().second] <= limits.liveBytes)
    return pop(ready);
  // Beyond the limit, prefers the unit that needs the least memory. Looks at
  // few units, in the order of their ranks, so that the time stays linear. The
  // next in this order is among the children of those that were looked at.
  constexpr int kLooks = 17;
  auto isLater = [&](size_t a, size_t b) { return ready[b] < ready[a]; };
  SmallVector<size_t, kLooks + 1> next = {0};
  size_t chosen = 0;
  for (int look = 0; look < kLooks && !next.empty(); ++look) {
    std::pop_heap(next.begin(), next.end(), isLater);
    size_t index = next.pop_back_val();
    if (growth[ready[index].second] < growth[ready[chosen].second])
      chosen = index;
    if (liveBytes + growth[ready[chosen].second] <= limits.liveBytes)
      break;
    for (size_t child : {2 * index + 1, 2 * index + 2})
      if (child < ready.size()) {
        next.push_back(child);
        std::push_heap(next.begin(), next.end(), isLater);
      }
  }
  return removeAt(ready, chosen);
}

void Player::fill(Queue &queue) {
  if (queue.runs >= 0)
    return;
  // Only the first unit that could run ahead is looked at: later ones serve
  // later readers.
  Heap &ready = queue.ready, &ahead = queue.readyAhead;
  if (!ahead.empty() && (ready.empty() || ahead.front() < ready.front()) &&
      !mustWait(ahead.front().second))
    begin(pop(ahead));
  else if (!ready.empty())
    begin(take(ready));
}

std::optional<Schedule> Player::play(ArrayRef<double> rank, double atMost) {
  this->rank = rank;
  this->atMost = atMost * kRounding;
  reset();
  for (size_t unit = 0; unit < graph.units.size(); ++unit)
    if (waitsFor[unit] == 0)
      release(static_cast<int32_t>(unit));
  while (true) {
    bool runs = false;
    for (Queue &queue : queues) {
      fill(queue);
      runs |= queue.runs >= 0;
    }
    if (!runs && !force())
      break;
    if (isTooLong)
      return std::nullopt;
    setPace();
    now = std::numeric_limits<double>::infinity();
    for (const Queue &queue : queues)
      if (queue.runs >= 0)
        now = std::min(now, queue.end);
    // Ends all units that end now before the queues choose, so that a queue can
    // choose any unit that becomes ready now.
    for (const Queue &queue : queues)
      if (queue.runs >= 0 && queue.end == now)
        end(queue.runs);
  }
  schedule.seconds = now;
  return std::move(schedule);
}

Schedule heddle::scheduleByRank(const UnitGraph &graph, ArrayRef<double> rank,
                                const ScheduleLimits &limits) {
  return *Player(graph, limits).play(rank);
}
