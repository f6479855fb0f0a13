//===- Oases.h - The problem of Oases' planner ------------------*- C++ -*-===//
//
// Oases (Li et al., 2023) chooses a degree of tensor parallelism for each
// half-layer (attention and MLP in turn) by a 0/1 program. Its costs assume
// that the collective of one half of a batch overlaps the computation of the
// other half. Here, the half-layers are a chain of nodes. The costs of a node
// and of a change of degree are Oases' released formulas (mpu/planner.py).
// Unlike there, the plan is not collapsed to two degrees afterwards.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SOLVER_OASES_H
#define HEDDLE_SOLVER_OASES_H

#include "heddle/Solver/Solve.h"

#include <string_view>

namespace heddle::solver {

/// Measurements of a layer's two halves; times in milliseconds.
struct OasesProfileRow {
  int64_t hidden = 0;
  int64_t degree = 0; ///< Devices of tensor parallelism.
  int64_t batch = 0;
  double attentionForward = 0, attentionBackward = 0;
  double mlpForward = 0, mlpBackward = 0;
  double allReduce = 0;
  double runtimeMebibytes = 0;
};

llvm::Expected<std::vector<OasesProfileRow>>
parseOasesProfile(std::string_view json);

struct OasesOptions {
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t devices = 32;
  int64_t globalBatch = 0;
  double deviceMebibytes = 24 * 1024; ///< 95 % of it may be used.
};

struct OasesProblem {
  Problem instance;             ///< Costs in nanoseconds, usages in bytes.
  std::vector<int64_t> degrees; ///< Strategy -> degree, ascending.
};

/// Makes a problem with a node for each half-layer. It has a strategy for each
/// degree for which the profile has the batch globalBatch * degree / devices
/// / 2. Fails if the profile has this batch for no degree.
llvm::Expected<OasesProblem>
oasesProblem(const std::vector<OasesProfileRow> &profile,
             const OasesOptions &o);

/// The plan that Oases executes instead of `plan`. It has only the two
/// commonest degrees. The first layers have the smaller degree, the others the
/// larger one. The share of layers with the smaller degree is its share among
/// the half-layers with these two degrees.
Assignment collapseOasesPlan(const OasesProblem &p, const Assignment &plan);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_OASES_H
