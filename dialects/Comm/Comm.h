//===- Comm.h - Collectives of one device's program -------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_COMM_COMM_H
#define HEDDLE_DIALECTS_COMM_COMM_H

#include "dialects/Heddle/Heddle.h"
#include "dialects/Heddle/Streams.h"

#include "dialects/Comm/CommDialect.h.inc"

namespace heddle::comm {

/// An op on one tensor that all members of a group execute together, with one
/// tensor as its result.
template <typename ConcreteType>
class Collective : public mlir::OpTrait::TraitBase<ConcreteType, Collective> {};

} // namespace heddle::comm

#define GET_TYPEDEF_CLASSES
#include "dialects/Comm/CommTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/Comm/CommOps.h.inc"

#endif // HEDDLE_DIALECTS_COMM_COMM_H
