//===- InitAll.h - Registration of everything -------------------*- C++ -*-===//
//
// The one place where Heddle's dialects, external models and passes, and the
// upstream ones that it uses, are registered.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_INITALL_H
#define HEDDLE_INITALL_H

#include "mlir/IR/DialectRegistry.h"

namespace heddle {

/// Heddle's dialects and the interfaces that it attaches to upstream ops; for
/// programs that register the upstream dialects of their choice themselves.
void registerHeddleDialects(mlir::DialectRegistry &registry);

/// Heddle's passes and pipelines alone.
void registerHeddlePasses();

/// Heddle's dialects, the upstream dialects that programs pass through, and
/// all interfaces attached to them from outside.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Heddle's passes and pipelines and the upstream passes.
void registerAllPasses();

} // namespace heddle

#endif // HEDDLE_INITALL_H
