//===- CallTable.h - The names of a program's calls -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_CALLTABLE_H
#define HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_CALLTABLE_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace heddle {

/// Returns the calls of all rt.programs of a module as JSON text, in the form
/// that heddle_rt/abi.h describes for `heddle_calls`.
std::string getCallTable(mlir::ModuleOp module);

/// The global that holds this text.
inline constexpr llvm::StringLiteral kCallTableName = "heddle_calls";

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_CALLTABLE_H
