//===- OpTraits.h - Traits of ops for plans ---------------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_INTERFACES_OPTRAITS_H
#define HEDDLE_DIALECTS_INTERFACES_OPTRAITS_H

#include "mlir/IR/OpDefinition.h"

namespace heddle {

/// An op of the forward or backward pass, never of the optimizer's update. The
/// sharding of such ops decides how the update is sharded, not the other way
/// round.
template <typename ConcreteType>
class NetworkOp : public mlir::OpTrait::TraitBase<ConcreteType, NetworkOp> {};

/// An op that normalizes rows, or the gradient of such an op. In a standard
/// plan with sequence parallelism, the plan splits these ops along the
/// sequence.
template <typename ConcreteType>
class NormalizationOp
    : public mlir::OpTrait::TraitBase<ConcreteType, NormalizationOp> {};

} // namespace heddle

#endif // HEDDLE_DIALECTS_INTERFACES_OPTRAITS_H
