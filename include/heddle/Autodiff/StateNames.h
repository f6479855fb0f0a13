//===- StateNames.h - The variables of a training step ----------*- C++ -*-===//

#ifndef HEDDLE_AUTODIFF_STATENAMES_H
#define HEDDLE_AUTODIFF_STATENAMES_H

#include "dialects/Heddle/HeddleDialect.h"
#include <string>

namespace heddle {

/// Returns the name of the variable that a training step keeps for a parameter,
/// such as "adamw.m.wte.weight". Plans and checkpoints use this name.
std::string getStateName(StateKind kind, llvm::StringRef parameter);

} // namespace heddle

#endif // HEDDLE_AUTODIFF_STATENAMES_H
