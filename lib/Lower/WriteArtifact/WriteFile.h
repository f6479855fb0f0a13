//===- WriteFile.h - Files of an artifact -----------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_WRITEARTIFACT_WRITEFILE_H
#define HEDDLE_LIB_LOWER_WRITEARTIFACT_WRITEFILE_H

#include "mlir/IR/Location.h"

namespace heddle {

/// Writes a file. Emits an error at `loc` that names the file and the cause.
mlir::LogicalResult writeFile(mlir::Location loc, llvm::StringRef path,
                              llvm::StringRef bytes);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_WRITEARTIFACT_WRITEFILE_H
