//===- Oases.h - Oases' planner as an instance ------------------*- C++ -*-===//
//
// Oases (Li et al., 2023) chooses a degree of tensor parallelism for each
// half-layer (attention and MLP in turn) by a 0/1 program whose costs overlap
// the collective of one half of a batch with the computation of the other. The
// same costs make a chain of nodes here; what each node and each change of
// degree costs is Oases' released formula (mpu/planner.py). Unlike there, the
// plan is not collapsed to two degrees afterwards.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SOLVER_OASES_H
#define HEDDLE_SOLVER_OASES_H

#include "heddle/Solver/Solve.h"

#include <string_view>

namespace heddle::solver {

/// Measurements of a layer's two halves; times in milliseconds.
struct OasesProfileRow {
  int64_t Hidden = 0;
  int64_t Degree = 0; ///< Of tensor parallelism.
  int64_t Batch = 0;
  double AttentionForward = 0, AttentionBackward = 0;
  double MlpForward = 0, MlpBackward = 0;
  double AllReduce = 0;
  double RuntimeMebibytes = 0;
};

Expected<std::vector<OasesProfileRow>> parseOasesProfile(std::string_view Json);

struct OasesOptions {
  int64_t Hidden = 0;
  int64_t Layers = 0;
  int64_t Devices = 32;
  int64_t GlobalBatch = 0;
  double DeviceMebibytes = 24 * 1024; ///< 95 % of it may be used.
};

struct OasesProblem {
  Problem Instance;             ///< Costs in nanoseconds, usages in bytes.
  std::vector<int64_t> Degrees; ///< Strategy -> degree, ascending.
};

/// A node per half-layer and a strategy per degree whose batch, half of
/// GlobalBatch * degree / Devices, is in the profile. Fails if there is none.
Expected<OasesProblem> oasesProblem(const std::vector<OasesProfileRow> &Profile,
                                    const OasesOptions &O);

/// What Oases executes instead of `Plan`: the two commonest degrees, the
/// smaller one for as many of the first layers as its share of the half-layers
/// comes to, then the larger one.
Assignment collapseOasesPlan(const OasesProblem &P, const Assignment &Plan);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_OASES_H
