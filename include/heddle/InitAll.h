//===- InitAll.h - Registration of everything -------------------*- C++ -*-===//
//
// Registers Heddle's dialects, external models and passes, and the upstream
// ones that it uses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_INITALL_H
#define HEDDLE_INITALL_H

#include "mlir/IR/DialectRegistry.h"

namespace heddle {

/// Registers Heddle's dialects and the interfaces that it attaches to upstream
/// ops. For programs that choose the upstream dialects to register.
void registerHeddleDialects(mlir::DialectRegistry &registry);

/// Registers Heddle's passes and pipelines, but no upstream passes.
void registerHeddlePasses();

/// Registers Heddle's dialects, the upstream dialects that programs use, and
/// all external models of interfaces.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers Heddle's passes and pipelines and the upstream passes.
void registerAllPasses();

} // namespace heddle

#endif // HEDDLE_INITALL_H
