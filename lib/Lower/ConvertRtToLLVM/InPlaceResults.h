//===- InPlaceResults.h - Results in the memory of arguments ----*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_INPLACERESULTS_H
#define HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_INPLACERESULTS_H

#include "dialects/Rt/Rt.h"

namespace heddle {

/// Returns, for each result of a program, the arguments whose memory the result
/// may take. Such an argument has the result's size, and the last call that
/// touches it is over before the first call that touches the result. A caller
/// that no longer needs the argument can then give both the same memory.
/// Returns null if no result may take an argument's memory.
mlir::ArrayAttr findInPlaceResults(rt::ProgramOp program);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_INPLACERESULTS_H
