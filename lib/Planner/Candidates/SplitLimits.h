//===- SplitLimits.h - What axes have to divide -----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_CANDIDATES_SPLITLIMITS_H
#define HEDDLE_LIB_PLANNER_CANDIDATES_SPLITLIMITS_H

#include "heddle/Plan/DefaultPlan.h"
#include "mlir/IR/BuiltinOps.h"
#include <cstdint>
#include <utility>
#include <vector>

namespace heddle {

/// The sizes that axes have to divide.
struct SplitLimits {
  bool hasBatch = false, hasBackward = false;
  /// Sizes of factors of the role features.
  std::vector<int64_t> features;
  /// Groups of heads and the heads of each.
  std::vector<std::pair<int64_t, int64_t>> heads;
  std::vector<int64_t> vocabularies;
  /// Sizes of factors of the role sequence in operators that can be computed
  /// in parts of it.
  std::vector<int64_t> sequences;

  /// Whether standard plans find anything to split.
  bool hasRoles() const {
    return hasBatch || !features.empty() || !heads.empty() ||
           !vocabularies.empty();
  }
  bool canSplitTensor(int64_t parts) const;
  bool canSplitSequence(int64_t parts) const;
  /// Whether attention can see a sequence in `context` parts in this way, if
  /// `tensor` devices split the heads.
  bool canSplitContext(ContextParallelism kind, int64_t context,
                       int64_t tensor) const;

private:
  bool canSplitHeads(int64_t parts) const;
};

/// Collects the sizes of the factors that the roles of a program name.
SplitLimits getSplitLimits(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_CANDIDATES_SPLITLIMITS_H
