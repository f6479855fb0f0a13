//===- StreamOrder.h - Whether events order what calls do -------*- C++ -*-===//
//
// Calls on one stream run one after the other; calls on two streams run in any
// order that events allow. A program is right if any such order gives the same
// numbers: two calls that touch the same bytes, of which one writes them, must
// be ordered.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_STREAMORDER_H
#define HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_STREAMORDER_H

#include "dialects/Rt/Rt.h"

namespace heddle {

/// Checks, and emits, that stream order and events order
///  - any two calls of the program that touch the same bytes, of which one
///    writes them,
///  - the calls of every stream behind the program's beginning on the compute
///    stream, and before its end there: callers order programs by that stream.
///
/// The events must have been recorded before they are waited for.
mlir::LogicalResult verifyStreamOrder(rt::ProgramOp program);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_STREAMORDER_H
