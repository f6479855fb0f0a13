//===- NativeTarget.h - Code generators for a target ------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_WRITEARTIFACT_NATIVETARGET_H
#define HEDDLE_LIB_LOWER_WRITEARTIFACT_NATIVETARGET_H

#include "heddle/Lower/Artifact.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"

namespace heddle {

mlir::FailureOr<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(mlir::Location loc, const NativeTarget &target,
                    llvm::CodeGenOptLevel level);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_WRITEARTIFACT_NATIVETARGET_H
