//===- Comm.h - Collectives of one device's program -------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_COMM_COMM_H
#define HEDDLE_DIALECTS_COMM_COMM_H

#include "dialects/Heddle/Heddle.h"
#include "dialects/Heddle/Streams.h"

#include "dialects/Comm/CommDialect.h.inc"

namespace heddle::comm {

/// An op with one tensor as operand and one as result that all members of a
/// group execute together.
template <typename ConcreteType>
class Collective : public mlir::OpTrait::TraitBase<ConcreteType, Collective> {};

} // namespace heddle::comm

#define GET_TYPEDEF_CLASSES
#include "dialects/Comm/CommTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/Comm/CommOps.h.inc"

namespace heddle::comm {

/// Returns whether each member sends one run of memory to each other member and
/// receives one from it, all of one size. Runtimes have only this form. Ops
/// without the trait Collective count as contiguous.
bool isContiguous(mlir::Operation *op);

/// Emits an error unless the op is contiguous.
mlir::LogicalResult verifyContiguous(mlir::Operation *op);

} // namespace heddle::comm

#endif // HEDDLE_DIALECTS_COMM_COMM_H
