//===- Extrapolation.h - Candidates judged by few layers --------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_BOUNDS_EXTRAPOLATION_H
#define HEDDLE_LIB_PLANNER_BOUNDS_EXTRAPOLATION_H

#include "heddle/Planner/Planner.h"

namespace heddle {

/// The numbers of layers of the programs that stand for a deeper one. Two
/// layers are the fewest that repeat. The difference between two and four
/// layers shows the figures of a layer.
constexpr int64_t kFewLayers = 2, kMoreLayers = 4;

/// The layers of each stage of the two pipelines that stand for deeper ones.
constexpr int64_t kInStage[] = {1, 2};

/// Returns the factor by which the layers of these pipelines are multiplied.
/// Recomputation recognizes layers by their repetition.
inline int64_t getStageFactor(const Candidate &candidate) {
  return candidate.recompute == RecomputeMode::None ? 1 : 2;
}

/// Returns whether programs of few layers stand for a candidate. In such a
/// pipeline, the planner gives each stage a number of whole layers. In any
/// other one, stages are cut where they take about equal time, perhaps within a
/// layer.
inline bool extrapolates(const PlanRequest &request,
                         const Candidate &candidate) {
  // Stated stages name all layers. A program of few layers leaves so much
  // memory that an open schedule would choose differently, and would recompute
  // nothing under a stated limit of bytes.
  if ((request.stated && request.stated->numStages > 0) ||
      candidate.leavesSchedule || candidate.recomputeBytes > 0)
    return false;
  std::optional<int64_t> layers = request.program.layers;
  if (!layers || *layers <= kMoreLayers || *layers < candidate.getNumStages())
    return false;
  return candidate.mesh.pipeline == 1 ||
         *layers >= 2 * kInStage[1] * getStageFactor(candidate);
}

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BOUNDS_EXTRAPOLATION_H
