//===- StateNames.h - The variables of a training step ----------*- C++ -*-===//

#ifndef HEDDLE_AUTODIFF_STATENAMES_H
#define HEDDLE_AUTODIFF_STATENAMES_H

#include "llvm/ADT/StringRef.h"

namespace heddle {

/// What stands before a parameter's name in the names of the variables that a
/// training step keeps for it.
inline constexpr llvm::StringLiteral kAdamWMean = "adamw.m.";
inline constexpr llvm::StringLiteral kAdamWSquare = "adamw.v.";
inline constexpr llvm::StringLiteral kSGDMomentum = "sgd.momentum.";
inline constexpr llvm::StringLiteral kGradient = "grad.";

} // namespace heddle

#endif // HEDDLE_AUTODIFF_STATENAMES_H
