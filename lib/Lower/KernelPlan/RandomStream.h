//===- RandomStream.h - The random numbers of an op -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_KERNELPLAN_RANDOMSTREAM_H
#define HEDDLE_LIB_LOWER_KERNELPLAN_RANDOMSTREAM_H

#include "llvm/ADT/StringRef.h"

namespace heddle::lower {

/// On an op whose body draws random numbers: the number of their stream, i64.
/// The body has this number as a constant, too. A kernel takes the number as an
/// operand, so that dropouts that differ only in their stream share a kernel.
/// No op has the attribute after kernels are formed.
inline constexpr llvm::StringLiteral kRandomStreamAttrName = "random_stream";

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_KERNELPLAN_RANDOMSTREAM_H
