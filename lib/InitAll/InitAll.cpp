//===- InitAll.cpp - Registration of everything ---------------------------===//
//
// The only file that includes all upstream dialects. It takes half a minute to
// compile.
//
//===----------------------------------------------------------------------===//

#include "heddle/InitAll.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"

using namespace mlir;

void heddle::registerAllDialects(DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registerHeddleDialects(registry);
}

void heddle::registerAllPasses() {
  mlir::registerAllPasses();
  registerHeddlePasses();
}
