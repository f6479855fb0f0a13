//===- ReadAsStored.h - Axes of an op that reads a variable -----*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_PROPAGATE_READASSTORED_H
#define HEDDLE_LIB_SHARD_PROPAGATE_READASSTORED_H

#include "heddle/Sharding/FactorShardings.h"
#include <optional>

namespace heddle {

/// Returns the axes of the op's factors if operand `index` is read as `storage`
/// splits it: an axis of the storage moves to the factor of the dimension that
/// it splits. None if a dimension has no single factor, or if the factors
/// cannot be split so.
std::optional<FactorAxes> readAsStored(const ShardingRule &rule,
                                       FactorAxes axes, unsigned index,
                                       ShardingAttr storage, MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_PROPAGATE_READASSTORED_H
