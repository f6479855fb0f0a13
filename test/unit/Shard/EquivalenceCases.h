//===- EquivalenceCases.h - Models and plans for them -----------*- C++ -*-===//

#ifndef HEDDLE_TEST_SHARD_EQUIVALENCECASES_H
#define HEDDLE_TEST_SHARD_EQUIVALENCECASES_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::test {

/// A small model. Some cases choose sizes that the mesh does not divide.
struct SmallModel {
  std::string config;
  int64_t batch = 4, sequence = 5, vocabulary = 22;
  double dropout = 0;
};

/// A model and how it is partitioned and trained.
struct EquivalenceCase {
  const char *name;
  SmallModel model;
  std::string plan; ///< JSON, or "dp,tp,zero"
  std::string training = "";
  std::string before = ""; ///< passes before autodiff
};

std::vector<EquivalenceCase> getEquivalenceCases();

} // namespace heddle::test

#endif // HEDDLE_TEST_SHARD_EQUIVALENCECASES_H
