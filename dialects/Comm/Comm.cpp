//===- Comm.cpp - Collectives of one device's program ---------------------===//

#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/EnumSyntax.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::comm;

#include "dialects/Comm/CommDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Comm/CommTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Comm/CommOps.cpp.inc"

void CommDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Comm/CommTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Comm/CommOps.cpp.inc"
      >();
}
