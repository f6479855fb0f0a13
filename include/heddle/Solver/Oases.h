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

/// A node per half-layer and a strategy per degree whose batch, half of
/// globalBatch * degree / devices, is in the profile. Fails if there is none.
llvm::Expected<OasesProblem>
oasesProblem(const std::vector<OasesProfileRow> &profile,
             const OasesOptions &o);

/// The plan that Oases executes instead of `plan`: the two commonest degrees,
/// the smaller one for as many of the first layers as its share of the
/// half-layers comes to, then the larger one.
Assignment collapseOasesPlan(const OasesProblem &p, const Assignment &plan);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_OASES_H
