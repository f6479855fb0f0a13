//===- Batch.h - The number of rows of a step -------------------*- C++ -*-===//
//
// Chooses the rows of a step where the user leaves them open, by throughput.
// More rows share the costs of a step that do not grow with them, such as the
// update and the exchange of gradients, so each doubling gains less than the
// one before. OSDP's scheduler tries one batch after the other, too.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANNER_BATCH_H
#define HEDDLE_PLANNER_BATCH_H

#include "heddle/Planner/Planner.h"

namespace heddle {

/// The best plan for a number of rows.
struct BatchPoint {
  int64_t rows = 1; ///< of a step, of all devices and micro-batches together
  Candidate candidate;
  double seconds = 0; ///< of a step; 0 if there is no plan
  /// Why there is no plan: nothing fits, the search was interrupted before one
  /// was found, or the user's pins cannot hold.
  std::string why = {};

  /// Returns the rows that a second trains.
  double getThroughput() const {
    return seconds > 0 ? double(rows) / seconds : 0;
  }
};

struct BatchChoice {
  int64_t rows = 1; ///< that were chosen
  PlanReport report;
  /// The numbers of rows that were tried, ascending.
  std::vector<BatchPoint> tried;
};

/// Finds plans for `request.program.rows` and doubles the rows until a doubling
/// raises the throughput by less than 2 %, or has no plan. The answer is the
/// number of rows before the last doubling. While nothing fits, or pins cannot
/// hold, three doublings are tried: a pipeline needs as many rows as stages.
/// Programs of few layers decide all this. If none of them fits, the smallest
/// number of rows is planned with all layers. If the answer does not fit with
/// all layers, half as many rows are planned. The
/// request's limit of compilations holds for each number. An interrupted search
/// ends with the best so far. The program must be one of any number of rows,
/// and there is no profile of blocks.
llvm::Expected<BatchChoice> findBatch(const PlanRequest &request,
                                      PlanObserver &observer);

} // namespace heddle

#endif // HEDDLE_PLANNER_BATCH_H
