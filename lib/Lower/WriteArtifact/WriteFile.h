//===- WriteFile.h - Files of an artifact -----------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_WRITEARTIFACT_WRITEFILE_H
#define HEDDLE_LIB_LOWER_WRITEARTIFACT_WRITEFILE_H

#include "mlir/IR/Location.h"

namespace heddle {

/// Writes a file. The error, at the location, names the file and says why.
mlir::LogicalResult writeFile(mlir::Location loc, llvm::StringRef path,
                              llvm::StringRef bytes);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_WRITEARTIFACT_WRITEFILE_H
