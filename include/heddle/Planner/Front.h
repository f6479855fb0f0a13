//===- Front.h - The Pareto front of plans ----------------------*- C++ -*-===//
//
// The Pareto front: plans for several numbers of devices and limits of memory.
// No plan of the front takes less time, less memory and fewer devices than
// another one. One search for each number of devices covers all limits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANNER_FRONT_H
#define HEDDLE_PLANNER_FRONT_H

#include "heddle/Planner/Planner.h"

namespace heddle {

/// One plan of the front.
struct FrontPoint {
  int64_t devices = 1;
  Candidate candidate;
  Plan plan;
  PlanFigures figures;
  /// Whether the figures are those of few layers, extrapolated.
  bool isExtrapolated = false;

  /// Returns what the step costs: device-hours.
  double getDeviceHours() const {
    return figures.seconds * double(devices) / 3600;
  }
};

struct PlanFront {
  /// Ordered by the number of devices, then by memory, both ascending.
  std::vector<FrontPoint> points;
  /// Numbers of devices for which there is no plan, and why.
  std::vector<std::pair<int64_t, std::string>> without;
  int64_t judged = 0, compiled = 0; ///< candidates and programs, in all
  bool isInterrupted = false;
};

/// Returns the numbers of devices, at most `most`, that are whole units of a
/// cluster's level, or a number of units that divides the level's count.
/// Example: 1, 2, 4, 8 and 16 for two servers of 8 devices.
std::vector<int64_t> getDeviceCounts(const Cluster &cluster, int64_t most);

/// Finds the front of the numbers of devices up to `request.devices` and of
/// memory up to `request.memory`. Two plans for the same number of devices
/// differ by 5 % in memory or more. The request's limit of compilations holds
/// for each number of devices, and each lower limit of memory may use a quarter
/// of it more. Nothing is compiled for a number of devices on which nothing can
/// fit. If there is no plan at all, returns the error of the largest number of
/// devices.
llvm::Expected<PlanFront> findFront(const PlanRequest &request,
                                    PlanObserver &observer);

} // namespace heddle

#endif // HEDDLE_PLANNER_FRONT_H
