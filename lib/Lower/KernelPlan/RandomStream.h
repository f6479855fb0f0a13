//===- RandomStream.h - The random numbers of an op -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_KERNELPLAN_RANDOMSTREAM_H
#define HEDDLE_LIB_LOWER_KERNELPLAN_RANDOMSTREAM_H

#include "llvm/ADT/StringRef.h"

namespace heddle::lower {

/// On an op whose body draws random numbers: the number of their stream, i64,
/// which the body has as a constant, too. A kernel takes it as an operand, so
/// dropouts that differ in nothing else share a kernel. No program has it after
/// kernels are formed.
inline constexpr llvm::StringLiteral kRandomStreamAttrName = "random_stream";

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_KERNELPLAN_RANDOMSTREAM_H
