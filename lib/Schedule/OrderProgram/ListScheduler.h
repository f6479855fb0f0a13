//===- ListScheduler.h - An order for units on queues -----------*- C++ -*-===//
//
// Orders the units of a program, which run on several queues at the same time:
// computations on one queue, collectives on one queue for each level of links.
// A queue runs one unit at a time. The class works on numbers, not on IR.
//
// The method is list scheduling (Graham, "Bounds on Multiprocessing Timing
// Anomalies", 1969): whenever a queue is idle, it takes the ready unit with the
// least rank. One list gives one schedule. `findSchedule` builds schedules from
// several lists and improves the best one by moving parts of its list.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_LISTSCHEDULER_H
#define HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_LISTSCHEDULER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace heddle {

/// Memory that a unit writes and others read.
struct UnitBuffer {
  int64_t bytes = 0;
  int32_t writer = 0;
  /// Live from the start of `writer` to the end of the last of these units, or
  /// of `writer` if there is none.
  llvm::SmallVector<int32_t, 4> readers;
};

struct Unit {
  int32_t queue = 0;  ///< 0: computations
  double seconds = 0; ///< if no unit of another queue runs
  /// Of a computation: the factor by which it takes longer while a collective
  /// of load 1 runs; at least 1.
  double slowdown = 1;
  /// Of a collective: how much of the device it occupies, from 0 to 1.
  double load = 1;
  /// Needs no data of the batch, such as the gather of a weight, and could
  /// start at once. How far it runs ahead is limited
  /// (ScheduleLimits::aheadBytes).
  bool isAhead = false;
  llvm::SmallVector<int32_t, 4> after; ///< units that must have ended before
};

/// Units are numbered in a legal order: a unit is only after lower numbers.
struct UnitGraph {
  std::vector<Unit> units;
  std::vector<UnitBuffer> buffers;
  int32_t queues = 1;
};

struct Schedule {
  std::vector<int32_t> order; ///< the units by their starts
  std::vector<double> start;  ///< of each unit, in seconds
  double seconds = 0;         ///< the end of the last unit
  int64_t peakBytes = 0;      ///< the most bytes of live buffers
};

/// No schedule takes less time than any of these. Slowdowns are not counted.
struct ScheduleBounds {
  double computation = 0;  ///< the sum of the units on queue 0
  double links = 0;        ///< the largest sum of any other queue
  double criticalPath = 0; ///< the longest chain of units

  double get() const {
    return std::max(computation, std::max(links, criticalPath));
  }
};

ScheduleBounds getBounds(const UnitGraph &graph);

struct ScheduleLimits {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  /// The most bytes of live buffers. A schedule that exceeds it is chosen only
  /// if no other was found.
  int64_t liveBytes = kNone;
  /// The most bytes of buffers of units that run ahead (Unit::isAhead) and that
  /// no reader has begun to read. A buffer that alone exceeds it is written
  /// when there is no other.
  int64_t aheadBytes = kNone;
};

/// Returns whether a schedule is better than another one: nearer to the limit
/// of live bytes if it exceeds that, else shorter, else with fewer live bytes.
bool isBetter(const Schedule &a, const Schedule &b,
              const ScheduleLimits &limits);

struct ScheduleOptions {
  ScheduleLimits limits;
  /// How many times to improve the best schedule of some known lists. More
  /// tries take longer and may help.
  int64_t tries = 500;
  /// How many units to start in all of these schedules. It limits the tries for
  /// large graphs.
  int64_t starts = 2'000'000;
  /// A schedule is not improved any more if it takes at most this much longer
  /// than the bounds.
  double tolerance = 0.01;
  uint64_t seed = 0;
};

/// Returns the schedule in which each queue takes the ready unit with the least
/// rank. While a unit would exceed the limit of live bytes, units that would
/// not exceed it go first. A unit that runs ahead waits while it would exceed a
/// limit, unless nothing else runs.
Schedule scheduleByRank(const UnitGraph &graph, llvm::ArrayRef<double> rank,
                        const ScheduleLimits &limits = {});

/// Returns for each unit the longest chain of seconds from its start to the end
/// of the program.
std::vector<double> getLongestPaths(const UnitGraph &graph);

/// Returns for each unit the most collectives of a chain from the beginning to
/// it.
/// By this list, parts of a batch take turns: each computes up to its next
/// collective, and all do so before the first one goes on. It is the order of
/// Oases (Li et al., 2023), whatever the number of parts.
std::vector<double> getTurns(const UnitGraph &graph);

/// Returns the schedule in which all units run one after the other, in the
/// order of their numbers, on whatever queue.
Schedule scheduleInSequence(const UnitGraph &graph);

/// Returns the best schedule found. The same graph and options give the same
/// schedule.
Schedule findSchedule(const UnitGraph &graph, const ScheduleOptions &options);

/// Returns the best schedule found if it fits the limit and takes less than
/// `seconds`. Gives up soon if none comes near to that.
std::optional<Schedule> findShorterSchedule(const UnitGraph &graph,
                                            const ScheduleOptions &options,
                                            double seconds);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_LISTSCHEDULER_H
