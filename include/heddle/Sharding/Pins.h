//===- Pins.h - Pins and priorities of single values ------------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_PINS_H
#define HEDDLE_SHARDING_PINS_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// Returns the priority that these attributes of an op, argument or result
/// state; 0 if absent. Propagation starts with the lowest number.
int64_t getPriority(mlir::DictionaryAttr attributes);

/// Adds the pins of the op's results to `pins`. Errors, on the op: a number of
/// pins other than that of results, a pin that is no sharding or is partial, a
/// pin of a result that is no tensor.
mlir::LogicalResult readPins(mlir::Operation *op,
                             llvm::MapVector<mlir::Value, ShardingAttr> &pins);

/// Returns the pin of one result; null if it has none.
ShardingAttr getPinOf(mlir::OpResult result);
/// Sets the pin of one result and keeps the pins of the op's other results.
void setPinOf(mlir::OpResult result, ShardingAttr pin);

/// Emits an error unless the sharding fits `type`. The type must be a ranked
/// tensor of the sharding's rank, the sharding must be over the mesh and its
/// axes, and if it splits a dimension, the shape must be static.
mlir::LogicalResult verifySharding(mlir::Location loc, ShardingAttr sharding,
                                   mlir::Type type, MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_SHARDING_PINS_H
