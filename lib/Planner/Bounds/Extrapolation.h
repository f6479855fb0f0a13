//===- Extrapolation.h - Candidates judged by few layers --------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_BOUNDS_EXTRAPOLATION_H
#define HEDDLE_LIB_PLANNER_BOUNDS_EXTRAPOLATION_H

#include "heddle/Planner/Planner.h"

namespace heddle {

/// The numbers of layers of the programs that stand for a deeper one. Two
/// layers are the fewest that repeat. The difference between two and four
/// layers shows the figures of a layer.
constexpr int64_t kFewLayers = 2, kMoreLayers = 4;

/// A schedule `auto` of a program with at most this many layers may choose what
/// is computed again. It compares some twenty variants of all layers.
constexpr int64_t kMostLayersOfOpen = 8;

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
  // memory that an open schedule would choose differently.
  if ((request.stated && request.stated->numStages > 0) ||
      candidate.leavesSchedule)
    return false;
  std::optional<int64_t> layers = request.program.layers;
  // Only the pass of a whole program without stages knows of further layers.
  if (candidate.recomputeBytes > 0 &&
      (candidate.mesh.pipeline > 1 || layers.value_or(0) <= kMostLayersOfOpen))
    return false;
  if (!layers || *layers <= kMoreLayers || *layers < candidate.getNumStages())
    return false;
  return candidate.mesh.pipeline == 1 ||
         *layers >= 2 * kInStage[1] * getStageFactor(candidate);
}

/// Returns whether programs of few layers stand for the program, and its
/// schedule leaves recomputation to the candidate.
inline bool isDeep(const PlanRequest &request) {
  return request.program.layers.value_or(0) > kMostLayersOfOpen;
}

/// Returns whether a candidate computes only as much again as the memory of a
/// program of all layers requires. The judgement sets the limit.
inline bool fillsMemory(const PlanRequest &request,
                        const Candidate &candidate) {
  return candidate.recompute == RecomputeMode::Optimal &&
         candidate.recomputeBytes == 0 && candidate.mesh.pipeline == 1 &&
         !candidate.leavesSchedule && isDeep(request);
}

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BOUNDS_EXTRAPOLATION_H
