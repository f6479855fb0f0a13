//===- Pins.h - Pins and priorities of single values ------------*- C++ -*-===//

#ifndef HEDDLE_SHARDING_PINS_H
#define HEDDLE_SHARDING_PINS_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// Returns the priority given in the attributes of an op, an argument or a
/// result; 0 if there is none. Propagation starts with the lowest number.
int64_t getPriority(mlir::DictionaryAttr attributes);

/// Adds the pins of the op's results to `pins`. Emits an error on the op if the
/// pins are not as many as the results, if a pin is not a sharding or is
/// partial, or if a pinned result is not a ranked tensor. A unit attribute in
/// the list of pins stands for no pin.
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
