//===- Front.h - Plans of which none is better in all ----------*- C++ -*-===//
//
// The front of choices: plans for several numbers of devices and limits of
// memory, of which none takes less time, less memory and fewer devices than
// another one. One search for each number of devices answers for all limits.
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
  /// By devices, and of as many by memory, both ascending.
  std::vector<FrontPoint> points;
  /// Numbers of devices for which there is no plan, and why.
  std::vector<std::pair<int64_t, std::string>> without;
  int64_t judged = 0, compiled = 0; ///< candidates and programs, in all
  bool isInterrupted = false;
};

/// Returns the numbers of devices, at most `most`, that are whole units of a
/// cluster's level, or as many units as divide those of a level: of two servers
/// of 8 devices, 1, 2, 4, 8 and 16.
std::vector<int64_t> getDeviceCounts(const Cluster &cluster, int64_t most);

/// Finds the front of the numbers of devices up to `request.devices` and of
/// memory up to `request.memory`. Two plans of as many devices differ by 5 % in
/// memory or more. The request's limit of compilations holds for each number of
/// devices, and lower limits of memory may use a quarter of it each. The error
/// is that of the largest number of devices if there is no plan at all.
llvm::Expected<PlanFront> findFront(const PlanRequest &request,
                                    PlanObserver &observer);

} // namespace heddle

#endif // HEDDLE_PLANNER_FRONT_H
