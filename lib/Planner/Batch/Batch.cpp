//===- Batch.cpp - The number of rows of a step ---------------------------===//

#include "heddle/Planner/Batch.h"
#include "llvm/Support/MathExtras.h"

using namespace heddle;

/// A doubling of the rows pays if the throughput grows by this factor.
static constexpr double kLeastGain = 1.02;
/// The most doublings while nothing fits.
static constexpr size_t kMostWithoutPlan = 3;

llvm::Expected<BatchChoice> heddle::findBatch(const PlanRequest &request,
                                              PlanObserver &observer) {
  assert(!request.program.microBatchRows && !request.blocks &&
         "expected a program of any number of rows");
  PlanRequest sized = request;
  // Numbers of rows are compared by few layers.
  sized.compilesWinner = false;
  BatchChoice choice;
  for (;;) {
    observer.plansBatch(sized.program.rows);
    llvm::Expected<PlanReport> report = findPlan(sized, observer);
    if (!report)
      return report.takeError();
    bool fits = report->plan.has_value();
    BatchPoint point = {sized.program.rows, report->winner,
                        fits ? report->figures.seconds : 0};
    bool isFirst = choice.tried.empty();
    bool hadPlan = !isFirst && choice.report.plan;
    bool pays =
        !hadPlan || point.getThroughput() >=
                        kLeastGain * choice.tried.back().getThroughput();
    // An interrupted search may not have come to the plans that are worth it.
    bool isInterrupted = report->isInterrupted;
    choice.tried.push_back(std::move(point));
    if (isFirst || (fits && pays)) {
      choice.rows = sized.program.rows;
      choice.report = std::move(*report);
    }
    if (isInterrupted) {
      choice.report.isInterrupted = true;
      return std::move(choice);
    }
    if (!pays ||
        (!choice.report.plan && choice.tried.size() > kMostWithoutPlan) ||
        llvm::MulOverflow<int64_t>(sized.program.rows, 2, sized.program.rows))
      break;
  }
  if (!request.compilesWinner || !choice.report.plan)
    return std::move(choice);
  sized.compilesWinner = true;
  sized.program.rows = choice.rows;
  llvm::Expected<PlanReport> report = findPlan(sized, observer);
  if (!report)
    return report.takeError();
  choice.report = std::move(*report);
  return std::move(choice);
}
