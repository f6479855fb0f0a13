//===- ProgramFingerprint.h - Which program a trace is of -------*- C++ -*-===//

#ifndef HEDDLE_LOWER_PROGRAMFINGERPRINT_H
#define HEDDLE_LOWER_PROGRAMFINGERPRINT_H

#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace heddle {

/// Returns a hash of a module of rt.program ops, as 16 hexadecimal digits: the
/// mesh, the entry points and their micro-batches, and all calls with the sizes
/// that they compute. Names of operators and of the source do not count. The
/// manifest of an artifact keeps it, so that the trace of a run names its
/// program.
std::string getProgramFingerprint(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LOWER_PROGRAMFINGERPRINT_H
