//===- Pins.h - What the user says of single values -------------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_PINS_H
#define HEDDLE_SHARDING_PINS_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// The priority among these attributes (of an op, an argument or a result):
/// when others hear of what it says. 0, and first, if absent.
int64_t getPriority(mlir::DictionaryAttr attributes);

/// Adds the pins of the op's results. Errors, on the op: not as many as
/// results, a pin that is no sharding, or of a result that is no tensor.
mlir::LogicalResult readPins(mlir::Operation *op,
                             llvm::MapVector<mlir::Value, ShardingAttr> &pins);

/// The pin of one result; null if it has none.
ShardingAttr getPinOf(mlir::OpResult result);
/// Adds the pin of one result to those of the op.
void setPinOf(mlir::OpResult result, ShardingAttr pin);

/// An error unless `type` is a ranked tensor, of static shape where something
/// is split, and the sharding has its rank, is over the mesh and has its axes.
mlir::LogicalResult verifySharding(mlir::Location loc, ShardingAttr sharding,
                                   mlir::Type type, MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_SHARDING_PINS_H
