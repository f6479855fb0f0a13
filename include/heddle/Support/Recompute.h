//===- Recompute.h - What the backward pass computes again ------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_RECOMPUTE_H
#define HEDDLE_SUPPORT_RECOMPUTE_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace heddle {

/// The values of the forward pass that the backward pass computes again, so
/// that they take no memory in between.
enum class RecomputeMode {
  None,          ///< no value: all are kept
  Layer,         ///< all but the values between layers
  Communication, ///< as many as possible without communicating again
  Optimal,       ///< as few as the memory of a device allows
};

inline constexpr std::pair<RecomputeMode, llvm::StringLiteral>
    kRecomputeModes[] = {{RecomputeMode::None, "none"},
                         {RecomputeMode::Layer, "layer"},
                         {RecomputeMode::Communication, "communication"},
                         {RecomputeMode::Optimal, "optimal"}};

/// Returns the mode of that name; nullopt for another name.
inline std::optional<RecomputeMode> parseRecomputeMode(llvm::StringRef name) {
  for (const auto &[mode, known] : kRecomputeModes)
    if (known == name)
      return mode;
  return std::nullopt;
}

inline llvm::StringRef stringifyRecomputeMode(RecomputeMode mode) {
  return kRecomputeModes[static_cast<size_t>(mode)].second;
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_RECOMPUTE_H
