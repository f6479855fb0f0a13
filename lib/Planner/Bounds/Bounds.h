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
  double update = 0;   ///< of the estimate: the seconds behind the passes
  double state = 0;    ///< lower bound of the bytes of variables
  double kept = 0;     ///< and of those from the forward to the backward pass
  double arena = 0;    ///< estimated bytes of everything else
};

/// The seconds of the passes of a pipeline's micro-batch, as simulated, on the
/// devices of one stage: of all layers with embedding and head, and of one.
struct SimulatedPasses {
  double all = 0, layer = 0;
};

/// Rates candidates. Holds the topologies of their meshes.
class BoundModel {
public:
  BoundModel(const PlanRequest &request, CountModel counts);

  /// If the candidate is a pipeline whose passes have been simulated, its
  /// bound is that of its schedule.
  llvm::Expected<CandidateBounds> rate(const Candidate &candidate,
                                       const SimulatedPasses *passes = nullptr);

private:
  CandidateBounds rate(const Candidate &candidate, const MeshTopology &topology,
                       const SimulatedPasses *passes);
  CandidateBounds estimateOpen(const Candidate &candidate,
                               const MeshTopology &topology);
  llvm::Expected<MeshTopology &> getTopology(const DefaultMesh &mesh);
  struct StepCounts {
    ProgramCounts all, layer; ///< of a micro-batch and the update
    /// Computation that grows with the rows: the part that is split in any
    /// case. A lower bound, because the time of an op is convex in its rows.
    double computing = 0, computingOfLayer = 0;
    /// Computation of a micro-batch that does not grow with the rows, such as
    /// casts of weights and sums of gradients.
    double fixed = 0, fixedOfLayer = 0;
  };
  const StepCounts &getCounts(int64_t microBatches);
  double getTraffic(const Candidate &candidate, const MeshTopology &topology,
                    const ProgramCounts &one, const ProgramCounts &layer) const;
  double getUpdateTraffic(const Candidate &candidate,
                          const MeshTopology &topology,
                          const ProgramCounts &one) const;
  double getKept(const Candidate &candidate, const MeshTopology &topology,
                 const ProgramCounts &all, const ProgramCounts &layer) const;
  double getRepeated(const Candidate &candidate, const MeshTopology &topology,
                     const StepCounts &step, double state) const;
  double getLeastLayers(const Candidate &candidate) const;
  bool repeatsFixed(const Candidate &candidate) const;
  /// Returns whether the user states axes of operators.
  bool statesSplits() const;
  /// Returns whether the user states how variables are stored.
  bool statesStorage() const;
  /// Of a step: sums of tensor parallelism, exchanges of keys and values, and
  /// gradients with stored variables.
  struct CollectiveSeconds {
    double tensor = 0, context = 0, data = 0;
  };
  CollectiveSeconds estimateCollectives(const Candidate &candidate,
                                        const MeshTopology &topology,
                                        const ProgramCounts &one) const;

  const PlanRequest &request;
  ClusterDevice device; ///< the best in each figure if devices differ
  CountModel model;
  std::map<int64_t, StepCounts> counts; ///< by the number of micro-batches
  std::map<std::vector<int64_t>, MeshTopology> topologies;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BOUNDS_BOUNDS_H
