//===- PaddingWarnings.h - Devices with nothing but padding -----*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_PADDINGWARNINGS_H
#define HEDDLE_LIB_SHARD_EXPLAIN_PADDINGWARNINGS_H

#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// Warns where half of the devices or more hold nothing but padding: a
/// dimension or loop is much smaller than the number of devices that it is
/// split over. One warning for each size and list of axes, on the first
/// variable, or else operator, or else op without a name or argument; the rest
/// are counted. Expects complete `heddle.factors` and storage.
void warnOfPadding(mlir::ModuleOp module, MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_PADDINGWARNINGS_H
