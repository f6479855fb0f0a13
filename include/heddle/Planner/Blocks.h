//===- Blocks.h - Measured strategies of blocks of operators ----*- C++ -*-===//
//
// A profile of blocks lists measurements of parts of a model, such as layers or
// half-layers, for several ways to split each part over the devices of one
// mesh. Published planners work on such tables: OSDP's on layers whose
// attention or MLP is stored sharded, and Oases' on half-layers, each with a
// degree of tensor parallelism. docs/planner.md documents the JSON form.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANNER_BLOCKS_H
#define HEDDLE_PLANNER_BLOCKS_H

#include "heddle/Plan/DefaultPlan.h"
#include <string>
#include <vector>

namespace heddle {

/// One way to split a block. "{block}" stands for the block's name in globs.
struct BlockStrategy {
  std::string name;
  double seconds = 0; ///< of a step
  int64_t bytes = 0;  ///< of a device, during the whole step
  std::vector<FactorEntry> operators;
  std::vector<StorageEntry> storage;
};

/// The time to go from a block to a block that comes after it in the program.
struct BlockChange {
  std::string glob; ///< that of the block after it
  /// The seconds of each change of strategy between the two blocks, row-major:
  /// the rows are strategies of the block, the columns those of the block after
  /// it.
  std::vector<double> seconds;
};

/// Blocks of equal cost: all whose name matches the glob. '*' matches within
/// one part of a name, so "h.*" stands for h.0, h.1, and so on.
struct MeasuredBlock {
  std::string glob;
  std::vector<BlockStrategy> strategies;
  /// A change to a block that is not listed takes no time.
  std::vector<BlockChange> next;
};

struct BlockProfile {
  std::string source; ///< names the profile in messages
  DefaultMesh mesh;   ///< on which the blocks were measured
  int64_t bytes = 0;  ///< of a device, beside the blocks
  std::vector<MeasuredBlock> blocks;
};

llvm::Expected<BlockProfile> parseBlockProfile(llvm::StringRef text,
                                               llvm::StringRef source);
llvm::Expected<BlockProfile> loadBlockProfile(llvm::StringRef path);

/// The strategy that was chosen for one block.
struct BlockChoice {
  std::string block, strategy;
  double seconds = 0;
  int64_t bytes = 0;
};

} // namespace heddle

#endif // HEDDLE_PLANNER_BLOCKS_H
