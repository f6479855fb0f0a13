//===- Staging.h - Memory for sums across processes -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_STAGING_H
#define HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_STAGING_H

#include "dialects/Rt/Rt.h"

namespace heddle {

/// Returns, by stream, the bytes in which a rank stages the sums of a program
/// if its ranks are in several processes (heddle_rt/staging.h). Streams beyond
/// the end have no sums.
llvm::SmallVector<int64_t> getStaging(rt::ProgramOp program);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_STAGING_H
