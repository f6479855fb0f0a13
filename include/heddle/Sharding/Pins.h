//===- Pins.h - Pins and priorities of single values ------------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_PINS_H
#define HEDDLE_SHARDING_PINS_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// The priority among these attributes of an op, argument or result.
/// Propagation starts with the lowest number; 0 if absent.
int64_t getPriority(mlir::DictionaryAttr attributes);

/// Adds the pins of the op's results. Errors, on the op: not as many as
/// results, a pin that is no sharding, or of a result that is no tensor.
mlir::LogicalResult readPins(mlir::Operation *op,
                             llvm::MapVector<mlir::Value, ShardingAttr> &pins);

/// The pin of one result; null if it has none.
ShardingAttr getPinOf(mlir::OpResult result);
/// Adds the pin of one result to those of the op.
void setPinOf(mlir::OpResult result, ShardingAttr pin);

/// Emits an error unless `type` is a ranked tensor and the sharding fits it: it
/// has its rank, is over the mesh and has only its axes. Where it splits,
/// shapes are static.
mlir::LogicalResult verifySharding(mlir::Location loc, ShardingAttr sharding,
                                   mlir::Type type, MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_SHARDING_PINS_H
