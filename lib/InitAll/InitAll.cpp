//===- InitAll.cpp - Registration of everything ---------------------------===//
//
// The upstream dialects and passes are registered by the function of MLIR's C
// API. Its archive contains the code for all of them, which takes most of a
// minute to compile.
//
//===----------------------------------------------------------------------===//

#include "heddle/InitAll.h"
#include "mlir-c/RegisterEverything.h"
#include "mlir/CAPI/IR.h"

using namespace mlir;

void heddle::registerAllDialects(DialectRegistry &registry) {
  mlirRegisterAllDialects(wrap(&registry));
  registerHeddleDialects(registry);
}

void heddle::registerAllPasses() {
  mlirRegisterAllPasses();
  registerHeddlePasses();
}
