//===- RandomModel.h - Small models to search in ----------------*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_SOLVER_RANDOMMODEL_H
#define HEDDLE_TEST_UNIT_SOLVER_RANDOMMODEL_H

#include "Reduce/Model.h"
#include "heddle/Support/Random.h"

namespace heddle::solver {

constexpr int kVariableCount = 14;
constexpr int kTimes = 3;

/// Returns a sparse model with three values per variable. Most variables have
/// loads, and some entries of the pairs' tables are infinite. All capacities
/// are 0, to be set by the test.
Model randomModel(Random &r);

Labels randomLabels(Random &r);

} // namespace heddle::solver

#endif // HEDDLE_TEST_UNIT_SOLVER_RANDOMMODEL_H
