//===- WriteFile.cpp - Files of an artifact -------------------------------===//

#include "WriteFile.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

LogicalResult heddle::writeFile(Location loc, StringRef path, StringRef bytes) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (!error) {
    stream << bytes;
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  if (error)
    return emitError(loc) << "cannot write '" << path
                          << "': " << error.message();
  return success();
}
