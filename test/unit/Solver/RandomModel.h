//===- RandomModel.h - Small models to search in ----------------*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_SOLVER_RANDOMMODEL_H
#define HEDDLE_TEST_UNIT_SOLVER_RANDOMMODEL_H

#include "Reduce/Model.h"
#include "heddle/Support/Random.h"

namespace heddle::solver {

constexpr int kVariableCount = 14;
constexpr int kTimes = 3;

/// Sparse, three values a variable, with loads; some entries of its tables are
/// infinite. All capacities are 0.
Model randomModel(Random &r);

Labels randomLabels(Random &r);

} // namespace heddle::solver

#endif // HEDDLE_TEST_UNIT_SOLVER_RANDOMMODEL_H
