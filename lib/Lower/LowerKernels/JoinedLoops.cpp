//===- JoinedLoops.cpp - Adjacent loops as one ----------------------------===//

#include "BodyEmitter.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Returns whether loops i and i + 1 of a nest can be one loop: in every
/// access, the step of loop i is the extent of loop i + 1 times its step.
static bool canJoin(const KernelPlan &plan, const Nest &nest, size_t i) {
  if (plan.chunk && i + 2 == nest.loops.size())
    return false;
  for (unsigned index : nest.statements) {
    const Statement &statement = plan.statements[index];
    if (statement.usesIndex)
      return false;
    if (statement.kind == StatementKind::Reduce) {
      // A kept loop and a reduced loop are not joined.
      int64_t border = statement.firstReduced;
      if (border < 0)
        for (auto [j, step] : llvm::enumerate(statement.writes[0].loops))
          if (step != 0) {
            border = j;
            break;
          }
      if (border == (int64_t)i + 1)
        return false;
    }
    auto steps = [&](const Access &access) {
      return access.loops[i] == nest.loops[i + 1] * access.loops[i + 1];
    };
    if (!llvm::all_of(statement.reads, steps) ||
        !llvm::all_of(statement.writes, steps))
      return false;
  }
  return true;
}

JoinedLoops::JoinedLoops(const KernelPlan &plan, const Nest &nest) {
  for (size_t i = 0; i < nest.loops.size(); ++i) {
    if (i > 0 && canJoin(plan, nest, i - 1)) {
      extents.back() *= nest.loops[i];
      lastOf.back() = i;
    } else {
      extents.push_back(nest.loops[i]);
      lastOf.push_back(i);
    }
  }
}

SmallVector<int64_t> JoinedLoops::join(ArrayRef<int64_t> steps) const {
  return llvm::map_to_vector(lastOf, [&](int64_t last) { return steps[last]; });
}
