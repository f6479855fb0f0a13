//===- Bounds.h - What a candidate takes at least ---------------*- C++ -*-===//
//
// Time and memory of candidates without a compilation. A bound is what no
// program of the candidate can go below. An estimate is what its program is
// expected to take; it decides the order in which candidates are compiled.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PLANNER_BOUNDS_BOUNDS_H
#define HEDDLE_LIB_PLANNER_BOUNDS_BOUNDS_H

#include "ProgramCounts.h"
#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Planner/Planner.h"
#include <map>

namespace heddle {

struct CandidateBounds {
  double seconds = 0;  ///< lower bound
  double estimate = 0; ///< seconds
  double state = 0;    ///< lower bound of the bytes of variables
  double arena = 0;    ///< estimated bytes of everything else
};

/// Rates candidates. Holds the topologies of their meshes.
class BoundModel {
public:
  BoundModel(const PlanRequest &request, CountModel counts);

  llvm::Expected<CandidateBounds> rate(const Candidate &candidate);

private:
  llvm::Expected<MeshTopology &> getTopology(const DefaultMesh &mesh);
  struct StepCounts {
    ProgramCounts all, layer; ///< of a micro-batch and the update
  };
  const StepCounts &getCounts(int64_t microBatches);

  const PlanRequest &request;
  CountModel model;
  std::map<int64_t, StepCounts> counts; ///< by the number of micro-batches
  std::map<std::vector<int64_t>, MeshTopology> topologies;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BOUNDS_BOUNDS_H
