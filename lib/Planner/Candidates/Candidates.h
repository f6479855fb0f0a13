//===- Candidates.h - The search space of the planner -----------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_CANDIDATES_CANDIDATES_H
#define HEDDLE_LIB_PLANNER_CANDIDATES_CANDIDATES_H

#include "SplitLimits.h"
#include "heddle/Planner/Planner.h"
#include <deque>

namespace heddle {

struct SearchSpace {
  std::deque<Candidate> candidates; ///< may be many
  /// For each reason, the number of candidates that were skipped before any
  /// bound was computed.
  std::vector<SkippedCandidates> leftOut;
};

/// Enumerates the candidates that agree with the pins: factorizations of the
/// devices into axes, groups of devices that store state, ZeRO levels,
/// micro-batches, sub-batches, and recomputation. The axes divide the rows,
/// heads and features of the program, so a candidate pads nothing but the
/// vocabulary. The candidates have the same order in every call.
SearchSpace enumerateCandidates(const PlanRequest &request,
                                const SplitLimits &limits);

/// Returns the number of choices in which two candidates differ.
unsigned getDistance(const Candidate &a, const Candidate &b);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_CANDIDATES_CANDIDATES_H
