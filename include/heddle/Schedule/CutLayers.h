//===- CutLayers.h - A model with fewer equal layers ------------*- C++ -*-===//
//
// A network of equal layers behaves as one with fewer of them: each layer adds
// the same time and the same bytes. So the time and memory of many variants of
// a program are extrapolated from networks of few layers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SCHEDULE_CUTLAYERS_H
#define HEDDLE_SCHEDULE_CUTLAYERS_H

#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Returns how many equal layers follow each other in @forward of an imported
/// model: how often most of its ops repeat, with the same attributes and types.
/// Names do not matter. Returns 0 if the model has no such layers.
int64_t countEqualLayers(mlir::ModuleOp module);

/// Removes all of these layers but the first `layers`, and their variables.
/// Readers of the last layer's results then read those of the last kept layer.
/// `layers` must be at least 1 and at most countEqualLayers().
void keepLayers(mlir::ModuleOp module, int64_t layers);

/// Returns whether a glob may stand for some of several numbered layers and not
/// for the others, as "h.3.mlp" and "h.1*.mlp" do.
bool namesLayers(llvm::StringRef glob);

} // namespace heddle

#endif // HEDDLE_SCHEDULE_CUTLAYERS_H
