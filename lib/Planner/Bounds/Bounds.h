//===- Bounds.h - Bounds of a candidate -------------------------*- C++ -*-===//
//
// Time and memory of candidates without a compilation. A bound is a lower limit
// for every program of the candidate. An estimate is the expected value, and
// decides the order in which candidates are compiled.
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
  double update = 0;   ///< seconds of the estimate after the passes
  double state = 0;    ///< lower bound of the bytes of variables
  double kept = 0;     ///< lower bound of the bytes of kept activations
  /// Estimated bytes of everything else, and of the variables that the largest
  /// stage of a pipeline has beyond an equal part.
  double arena = 0;
};

/// The simulated seconds of the passes of one micro-batch of a pipeline, on the
/// devices of one stage: those of the whole program and those of one layer.
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
  const CandidateBounds &getBetter(const CandidateBounds &a,
                                   const CandidateBounds &b) const;
  CandidateBounds estimateOpen(const Candidate &candidate,
                               const MeshTopology &topology);
  CandidateBounds estimateFilling(Candidate candidate,
                                  const MeshTopology &topology);
  llvm::Expected<MeshTopology &> getTopology(const DefaultMesh &mesh);
  struct StepCounts {
    ProgramCounts all, layer; ///< of a micro-batch and the update
    /// Computation that grows with the rows, which every candidate splits. A
    /// lower bound, because the time of an op is convex in its rows.
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
  double estimateArena(const Candidate &candidate, const StepCounts &step,
                       double ofLayers, double ofOthers) const;
  double estimateUneven(const Candidate &candidate,
                        const StepCounts &step) const;
  double getRepeated(const Candidate &candidate, const MeshTopology &topology,
                     const StepCounts &step, double state) const;
  double getLeastLayers(const Candidate &candidate) const;
  bool repeatsFixed(const Candidate &candidate) const;
  /// Returns whether the user states axes of operators.
  bool statesSplits() const;
  /// Returns whether the user states how variables are stored.
  bool statesStorage() const;
  /// Seconds of the collectives of a step: sums of tensor parallelism,
  /// exchanges of keys and values, and exchanges of gradients and stored
  /// variables.
  struct CollectiveSeconds {
    double tensor = 0, context = 0, data = 0;
  };
  double estimateContext(const Candidate &candidate,
                         const MeshTopology &topology,
                         const ProgramCounts &one) const;
  double estimateTables(const Candidate &candidate,
                        const MeshTopology &topology,
                        const ProgramCounts &all) const;
  double estimateContextWork(const Candidate &candidate,
                             const MeshTopology &topology,
                             const ProgramCounts &one) const;
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
