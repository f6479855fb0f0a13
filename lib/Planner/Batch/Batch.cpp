//===- Batch.cpp - The number of rows of a step ---------------------------===//

#include "heddle/Planner/Batch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <map>

using namespace heddle;

/// A doubling of the rows pays if the throughput grows by this factor.
static constexpr double kLeastGain = 1.02;
/// The most doublings while nothing fits.
static constexpr size_t kMostWithoutPlan = 3;

/// Returns whether an interrupted search for a number of rows leaves the plan
/// of few layers that was found before as the best one: it found no faster
/// plan, and did not compile this one with all layers.
static bool leavesEarlier(const PlanReport &report, const PlanReport &earlier) {
  if (!report.isInterrupted || !earlier.plan)
    return false;
  if (report.plan && report.figures.seconds < earlier.figures.seconds)
    return false;
  return llvm::none_of(report.judged, [&](const JudgedCandidate &judged) {
    return judged.isWhole &&
           judged.candidate.getKey() == earlier.winner.getKey();
  });
}

llvm::Expected<BatchChoice> heddle::findBatch(const PlanRequest &request,
                                              PlanObserver &observer) {
  assert(!request.program.microBatchRows && !request.blocks &&
         "expected a program of any number of rows");
  PlanRequest sized = request;
  // Programs of few layers are enough to compare numbers of rows.
  sized.compilesWinner = false;
  BatchChoice choice;
  std::map<int64_t, PlanReport> reports; // those with a plan, by rows
  bool hasReport = false;
  std::string problem;
  for (;;) {
    observer.plansBatch(sized.program.rows);
    llvm::Expected<PlanReport> report = findPlan(sized, observer);
    bool fits = report && report->plan;
    BatchPoint point;
    point.rows = sized.program.rows;
    if (fits) {
      point.candidate = report->winner;
      point.seconds = report->figures.seconds;
    } else if (report) {
      point.why = report->isInterrupted ? "interrupted before a plan was found"
                                        : "nothing fits";
    } else {
      // The user's pins may be possible with more rows.
      problem = point.why = llvm::toString(report.takeError());
    }
    bool hadPlan = hasReport && choice.report.plan;
    bool pays =
        !hadPlan || point.getThroughput() >=
                        kLeastGain * choice.tried.back().getThroughput();
    choice.tried.push_back(std::move(point));
    if (report) {
      bool isInterrupted = report->isInterrupted;
      if (fits)
        reports[sized.program.rows] = *report;
      if (!hasReport || (fits && pays)) {
        choice.rows = sized.program.rows;
        choice.report = std::move(*report);
        hasReport = true;
      }
      if (isInterrupted) {
        choice.report.isInterrupted = true;
        return std::move(choice);
      }
    }
    bool hasPlan = hasReport && choice.report.plan;
    if (!pays || (!hasPlan && choice.tried.size() > kMostWithoutPlan) ||
        llvm::MulOverflow<int64_t>(sized.program.rows, 2, sized.program.rows))
      break;
  }
  if (!hasReport)
    return llvm::createStringError(problem);
  if (!request.compilesWinner)
    return std::move(choice);
  sized.compilesWinner = true;
  if (!choice.report.plan) {
    // All layers may need less memory than few layers predict.
    sized.program.rows = choice.rows;
    observer.plansBatch(choice.rows);
    llvm::Expected<PlanReport> report = findPlan(sized, observer);
    if (!report)
      return report.takeError();
    choice.report = std::move(*report);
    auto smallest = llvm::find_if(choice.tried, [&](const BatchPoint &point) {
      return point.rows == choice.rows;
    });
    if (choice.report.plan)
      *smallest = {choice.rows, choice.report.winner,
                   choice.report.figures.seconds};
    return std::move(choice);
  }
  // With all layers, fewer rows may be the most that fit.
  for (const BatchPoint &point : llvm::reverse(choice.tried)) {
    if (point.rows > choice.rows || point.seconds <= 0)
      continue;
    sized.program.rows = point.rows;
    observer.plansBatch(point.rows);
    llvm::Expected<PlanReport> report = findPlan(sized, observer);
    if (!report)
      return report.takeError();
    choice.rows = point.rows;
    PlanReport &earlier = reports[point.rows];
    if (leavesEarlier(*report, earlier)) {
      choice.report = std::move(earlier);
      choice.report.isInterrupted = true;
      break;
    }
    choice.report = std::move(*report);
    if (choice.report.plan || choice.report.isInterrupted)
      break;
  }
  return std::move(choice);
}
