//===- VariableIO.h - Streams variables to and from files -------*- C++ -*-===//

#ifndef HEDDLE_RT_TRAINER_VARIABLEIO_H
#define HEDDLE_RT_TRAINER_VARIABLEIO_H

#include "heddle_rt/safetensors.h"
#include "heddle_rt/session.h"

#include <functional>
#include <optional>

namespace heddle::runtime {

/// Returns the safetensors type that equals `type`, if there is one.
std::optional<safetensors::DType> safetensorsType(DType type);

/// Passes a whole tensor to `use` in pieces of whole elements. At most a few
/// megabytes of it are in memory besides the devices' own copies.
Status
forEachPiece(const Session &session, size_t tensor,
             const std::function<Status(int64_t first, ConstBytes bytes)> &use);

/// Sets the gradients and the summed losses of a step to zero.
Status zeroSumsOfStep(Session &session);

} // namespace heddle::runtime

#endif // HEDDLE_RT_TRAINER_VARIABLEIO_H
