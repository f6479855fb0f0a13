//===- Front.cpp - Plans of which none is better in all -------------------===//

#include "heddle/Planner/Front.h"
#include <limits>

using namespace heddle;

/// The next limit of memory, as a fraction of the last plan's memory.
static constexpr double kNextMemory = 0.95;
/// The most limits of memory for one number of devices.
static constexpr size_t kMostLimits = 12;

std::vector<int64_t> heddle::getDeviceCounts(const Cluster &cluster,
                                             int64_t most) {
  std::vector<int64_t> counts = {1};
  int64_t unit = 1;
  for (const ClusterLevel &level : cluster.levels) {
    for (int64_t units = 2; units <= level.count && units <= most / unit;
         ++units)
      if (level.count % units == 0)
        counts.push_back(unit * units);
    unit *= level.count;
  }
  // The user's own number.
  if (most > counts.back())
    counts.push_back(most);
  return counts;
}

/// Returns whether the plan of `a` is no worse than that of `b` in any figure.
static bool isNoWorse(const FrontPoint &a, const FrontPoint &b) {
  return a.devices <= b.devices && a.figures.seconds <= b.figures.seconds &&
         a.figures.memory.total() <= b.figures.memory.total();
}

static void add(std::vector<FrontPoint> &points, FrontPoint point) {
  for (const FrontPoint &other : points)
    if (isNoWorse(other, point))
      return;
  llvm::erase_if(
      points, [&](const FrontPoint &other) { return isNoWorse(point, other); });
  points.push_back(std::move(point));
}

llvm::Expected<PlanFront> heddle::findFront(const PlanRequest &request,
                                            PlanObserver &observer) {
  PlanFront front;
  // Of the numbers of devices on which nothing can fit.
  size_t numHopeless = 0;
  int64_t leastBound = std::numeric_limits<int64_t>::max();
  for (int64_t devices : getDeviceCounts(request.cluster, request.devices)) {
    PlanRequest sized = request;
    sized.useFirst(devices);
    size_t numLimits = 0;
    int64_t judged = 0, compiled = 0;
    std::string why;
    llvm::Error problem = findPlans(
        sized, observer, [&](PlanReport &report) -> std::optional<int64_t> {
          judged = int64_t(report.judged.size());
          compiled = report.compiled;
          front.isInterrupted |= report.isInterrupted;
          int64_t needed = report.figures.getNeededMemory();
          int64_t total = report.figures.memory.total();
          if (!report.plan && report.judged.empty()) {
            ++numHopeless;
            leastBound = std::min(leastBound, report.memoryBound);
            why = "no plan needs less than " +
                  std::to_string(report.memoryBound) + " bytes";
            return std::nullopt;
          }
          if (!report.plan) {
            if (numLimits == 0)
              why =
                  (report.isInterrupted ? "interrupted before a plan was "
                                          "found; the least found is "
                                        : "nothing fits; the least found is ") +
                  std::to_string(needed) + " bytes, with " +
                  report.winner.getName() +
                  (report.isWorkUsedUp && report.memoryBound <= sized.memory
                       ? "; --work " + std::to_string(request.mostCompiled) +
                             " is used up: a candidate that was not compiled "
                             "may fit"
                       : "");
            return std::nullopt;
          }
          add(front.points, {devices, report.winner, std::move(*report.plan),
                             report.figures, report.isExtrapolated});
          // The limit is for the smallest device. A lower limit takes equally
          // many bytes from each device.
          int64_t next = needed - int64_t((1 - kNextMemory) * double(total));
          if (++numLimits >= kMostLimits || next < 1)
            return std::nullopt;
          return next;
        });
    front.judged += judged;
    front.compiled += compiled;
    if (problem)
      why = llvm::toString(std::move(problem));
    if (!why.empty())
      front.without.push_back({devices, why});
    if (front.isInterrupted)
      break;
  }
  if (numHopeless > 0 && numHopeless == front.without.size() &&
      front.points.empty())
    return llvm::createStringError(
        "nothing fits into " + std::to_string(request.memory) +
        " bytes: no plan for up to " + std::to_string(request.devices) +
        " devices needs less than " + std::to_string(leastBound) + " bytes");
  if (front.points.empty() && !front.isInterrupted)
    return llvm::createStringError("no plan for any number of devices; with " +
                                   std::to_string(front.without.back().first) +
                                   ": " + front.without.back().second);
  llvm::sort(front.points, [](const FrontPoint &a, const FrontPoint &b) {
    return std::pair(a.devices, a.figures.memory.total()) <
           std::pair(b.devices, b.figures.memory.total());
  });
  return std::move(front);
}
