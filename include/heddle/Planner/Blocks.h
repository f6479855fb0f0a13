//===- Blocks.h - Measured strategies of blocks of operators ----*- C++ -*-===//
//
// A profile of blocks has what was measured of parts of a model, such as layers
// or half-layers, each with several ways to split it over the devices of one
// mesh. Planners of their own kind work on such tables: OSDP's, of layers whose
// attention or MLP is stored sharded, and Oases', of half-layers with a degree
// of tensor parallelism each. docs/planner.md documents its JSON form.
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

/// What it takes to go from a block to one that comes after it in the program.
struct BlockChange {
  std::string glob; ///< that of the block after it
  /// What each change of strategy between the two blocks takes: row-major,
  /// strategies of the block as rows, of the block after it as columns.
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

/// What was chosen for one block.
struct BlockChoice {
  std::string block, strategy;
  double seconds = 0;
  int64_t bytes = 0;
};

} // namespace heddle

#endif // HEDDLE_PLANNER_BLOCKS_H
