//===- WriteAssignment.h - An assignment as attributes ----------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_PROPAGATE_WRITEASSIGNMENT_H
#define HEDDLE_LIB_SHARD_PROPAGATE_WRITEASSIGNMENT_H

#include "heddle/Sharding/ShardingAssignment.h"

namespace heddle {

/// Sets heddle.factors and heddle.sharding on ops, heddle.carried on control
/// flow, heddle.sharding on arguments and results, and the storage of
/// variables. Removes heddle.storage_axes from variables.
void writeAssignment(mlir::ModuleOp module, MeshRef mesh,
                     const ShardingAssignment &assignment);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_PROPAGATE_WRITEASSIGNMENT_H
