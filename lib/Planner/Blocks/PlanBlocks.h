//===- PlanBlocks.h - A plan from a profile of blocks -----------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_BLOCKS_PLANBLOCKS_H
#define HEDDLE_LIB_PLANNER_BLOCKS_PLANBLOCKS_H

#include "heddle/Planner/Blocks.h"
#include "mlir/IR/BuiltinOps.h"
#include <optional>

namespace heddle {

struct BlocksAnswer {
  /// False if nothing fits. Then the choices are those that need least memory.
  bool fits = false;
  /// In the order of the program.
  std::vector<BlockChoice> choices;
  double seconds = 0, bound = 0;
  int64_t bytes = 0; ///< including the memory beside the blocks
};

/// Chooses a strategy for each block of the module, so that the sum of their
/// times is least within `memory` bytes of a device. Adds the entries of the
/// strategies to `plan`. The error names the part of the profile that does not
/// agree with the module.
llvm::Expected<BlocksAnswer> planBlocks(mlir::ModuleOp module,
                                        const BlockProfile &profile,
                                        int64_t memory, Plan &plan);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BLOCKS_PLANBLOCKS_H
