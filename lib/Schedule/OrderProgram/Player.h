//===- Player.h - Plays a program forward in time ---------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_PLAYER_H
#define HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_PLAYER_H

#include "ListScheduler.h"
#include <optional>

namespace heddle {

/// Numbers for each unit or buffer, in one array.
class NumberLists {
public:
  /// Makes `count` lists. `visit` calls its argument once for each pair of a
  /// list and a number, in the same order each time.
  template <typename Visit> NumberLists(size_t count, Visit visit) {
    begins.resize(count + 1);
    visit([&](int32_t list, int32_t) { ++begins[list + 1]; });
    for (size_t i = 0; i < count; ++i)
      begins[i + 1] += begins[i];
    numbers.resize(begins.back());
    std::vector<int32_t> next = begins;
    visit(
        [&](int32_t list, int32_t number) { numbers[next[list]++] = number; });
  }
  llvm::ArrayRef<int32_t> operator[](int32_t list) const {
    return llvm::ArrayRef<int32_t>(numbers).slice(
        begins[list], begins[list + 1] - begins[list]);
  }

private:
  std::vector<int32_t> begins, numbers;
};

/// Makes schedules of one graph from lists of ranks. A search schedules the
/// same graph hundreds of times, so all data that depend on the graph alone are
/// computed once.
class Player {
public:
  Player(const UnitGraph &graph, const ScheduleLimits &limits);

  /// Returns the schedule in which each queue takes the ready unit with the
  /// least rank (scheduleByRank). Returns nullopt as soon as it is certain that
  /// the schedule takes more than `atMost` seconds.
  std::optional<Schedule>
  play(llvm::ArrayRef<double> rank,
       double atMost = std::numeric_limits<double>::infinity());

private:
  using Entry = std::pair<double, int32_t>; // rank and unit
  /// A heap whose first entry is the one with the least rank.
  using Heap = std::vector<Entry>;

  struct Queue {
    Heap ready, readyAhead;
    int32_t runs = -1;   ///< the unit that runs; -1: none
    double end = 0;      ///< of that unit, at its present pace
    double workLeft = 0; ///< seconds of the units that have not begun
  };

  void reset();
  void release(int32_t unit);
  void fill(Queue &queue);
  /// Returns the unit that a queue starts next if no unit runs ahead.
  int32_t take(Heap &ready);
  /// Returns whether a unit that runs ahead would exceed a limit.
  bool mustWait(int32_t unit) const;
  /// Starts a unit that must wait, because nothing else can run. Returns false
  /// if there is none.
  bool force();
  void begin(int32_t unit);
  void end(int32_t unit);
  /// Slows the computation that runs down by the collectives that run now.
  void setPace();

  const UnitGraph &graph;
  ScheduleLimits limits;
  NumberLists before;        // the reverse of Unit::after
  NumberLists writes, reads; // buffers of a unit
  std::vector<double> path;  // getLongestPaths
  /// Bytes that become live when the unit starts.
  std::vector<int64_t> growth;
  std::vector<double> work; // seconds of each queue's units

  // The state of one schedule.
  llvm::ArrayRef<double> rank;
  double atMost = 0;
  std::vector<int32_t> waitsFor, readersLeft;
  std::vector<bool> isAwaited; // by buffer: written ahead, not yet read
  std::vector<Queue> queues;
  double now = 0;
  // Of the computation that runs: how many times longer it takes now than
  // alone, the time since which this holds, and the seconds that were left then
  // if it ran alone.
  double pace = 1, paceSince = 0, secondsLeft = 0;
  int64_t liveBytes = 0, aheadBytes = 0;
  bool isTooLong = false;
  Schedule schedule;
};

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_PLAYER_H
