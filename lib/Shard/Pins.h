//===- Pins.h - What the user says of single values -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_PINS_H
#define HEDDLE_LIB_SHARD_PINS_H

#include "heddle/Shard/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// On an op: its result lies exactly so; an op with several results has an
/// array, with unit for those that are free.
inline constexpr llvm::StringLiteral kPinAttrName = "heddle.pin";
/// On an op with `heddle.factors` or `heddle.pin`, and on an argument or result
/// with `heddle.sharding`: when others hear of it. 0, and first, if absent.
inline constexpr llvm::StringLiteral kPriorityAttrName = "heddle.priority";

/// The priority among these attributes; an error, on the op, if it is no i64
/// from 0 up.
mlir::FailureOr<int64_t> readPriority(mlir::Operation *op,
                                      mlir::DictionaryAttr attributes);

/// Adds the pins of the op's results. Errors, on the op: not as many as
/// results, of another rank, an axis that the mesh lacks, a partial sharding.
mlir::LogicalResult readPins(mlir::Operation *op, MeshRef mesh,
                             llvm::MapVector<mlir::Value, ShardingAttr> &pins);

/// The pin of one result; null if it has none.
ShardingAttr getPinOf(mlir::OpResult result);
/// Adds the pin of one result to those of the op.
void setPinOf(mlir::OpResult result, ShardingAttr pin);

/// An error unless `type` is a ranked tensor, of static shape where something
/// is split, and the sharding has its rank and axes of the mesh.
mlir::LogicalResult verifySharding(mlir::Location loc, ShardingAttr sharding,
                                   mlir::Type type, MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_PINS_H
