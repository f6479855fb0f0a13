//===- StreamOrder.h - Checks the order of calls on streams -----*- C++ -*-===//
//
// Calls on one stream run one after the other. Calls on two streams run in any
// order that events allow. All these orders must give the same results. So two
// calls that touch the same bytes must be ordered if one of them writes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_STREAMORDER_H
#define HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_STREAMORDER_H

#include "dialects/Rt/Rt.h"

namespace heddle {

/// Checks that streams and events order any two calls that touch the same bytes
/// if one of them writes. Also checks that each call runs after the program's
/// start on the compute stream and before its end there, because callers order
/// programs by that stream. Emits an error at the first call that is not
/// ordered. Expects that each event is recorded before it is waited for.
mlir::LogicalResult verifyStreamOrder(rt::ProgramOp program);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_VERIFYEXECUTABLE_STREAMORDER_H
