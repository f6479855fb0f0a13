//===- Rt.h - The rt dialect ------------------------------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_RT_RT_H
#define HEDDLE_DIALECTS_RT_RT_H

#include "dialects/Heddle/LibraryOps.h"
#include "dialects/Heddle/Streams.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/RegionKindInterface.h"
#include <optional>

namespace heddle::rt {
/// The memory that a buffer lies in.
enum class Space : uint32_t { Arena, Variable, Argument, Result, Constant };
llvm::StringRef stringifySpace(Space space);
std::optional<Space> symbolizeSpace(llvm::StringRef name);

/// What the time of a call is spent on, as in heddle_rt/session.h.
enum class WorkKind { Matmul, Attention, Kernel, Collective, Copy };
/// Returns the name that traces have: "matmul".
llvm::StringRef stringifyWorkKind(WorkKind kind);
} // namespace heddle::rt

#include "dialects/Rt/RtDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Rt/RtAttrs.h.inc"

namespace heddle::rt {
/// One use of a buffer by a call.
struct Access {
  BufferAttr buffer;
  bool writes; ///< true if the call writes the buffer, or reads and writes it
};
using Accesses = llvm::SmallVector<Access, 8>;
} // namespace heddle::rt

#include "dialects/Rt/RtInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/Rt/RtOps.h.inc"

namespace heddle::rt {

/// The number of bytes of one element in memory (i1 takes one), or 0 if the
/// runtime has no such type.
int64_t getByteSize(mlir::Type elementType);
/// The number of bytes of a dense tensor.
int64_t getByteSize(mlir::RankedTensorType type);
/// The heddle_rt_dtype of a type, or nullopt if the runtime has no such type.
std::optional<int32_t> getRuntimeType(mlir::Type elementType);

/// The type of one device's part of a variable or port.
mlir::RankedTensorType getLocalType(VariableOp variable);
mlir::RankedTensorType getLocalType(mlir::Operation *from, PortAttr port);

/// The attribute of a lowered kernel that holds its work, a WorkAttr.
inline constexpr llvm::StringLiteral kWorkAttrName = "rt.work";

/// The strides of a dense row-major tensor, in elements.
llvm::SmallVector<int64_t> getDenseStrides(llvm::ArrayRef<int64_t> shape);

} // namespace heddle::rt

#endif // HEDDLE_DIALECTS_RT_RT_H
