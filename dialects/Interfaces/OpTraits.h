//===- OpTraits.h - What an op is for ---------------------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_INTERFACES_OPTRAITS_H
#define HEDDLE_DIALECTS_INTERFACES_OPTRAITS_H

#include "mlir/IR/OpDefinition.h"

namespace heddle {

/// Belongs to the forward or backward pass, and never to the optimizer's
/// update. How a plan splits such an op decides how the update is split, not
/// the other way round.
template <typename ConcreteType>
class NetworkOp : public mlir::OpTrait::TraitBase<ConcreteType, NetworkOp> {};

/// Normalizes rows, or is the gradient of an op that does. Where a standard
/// plan splits what lies between products along the sequence, it says so of
/// these.
template <typename ConcreteType>
class NormalizationOp
    : public mlir::OpTrait::TraitBase<ConcreteType, NormalizationOp> {};

} // namespace heddle

#endif // HEDDLE_DIALECTS_INTERFACES_OPTRAITS_H
