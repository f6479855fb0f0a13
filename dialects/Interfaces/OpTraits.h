//===- OpTraits.h - Traits of ops for plans ---------------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_INTERFACES_OPTRAITS_H
#define HEDDLE_DIALECTS_INTERFACES_OPTRAITS_H

#include "mlir/IR/OpDefinition.h"

namespace heddle {

/// An op of the forward or backward pass, never of the optimizer's update. The
/// split of such an op decides how the update is split, not the other way
/// round.
template <typename ConcreteType>
class NetworkOp : public mlir::OpTrait::TraitBase<ConcreteType, NetworkOp> {};

/// An op that normalizes rows, or the gradient of one. A standard plan that
/// splits the ops between products along the sequence assigns these ops.
template <typename ConcreteType>
class NormalizationOp
    : public mlir::OpTrait::TraitBase<ConcreteType, NormalizationOp> {};

} // namespace heddle

#endif // HEDDLE_DIALECTS_INTERFACES_OPTRAITS_H
