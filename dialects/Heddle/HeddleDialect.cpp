//===- HeddleDialect.cpp - The dialect and the names of ops ---------------===//

#include "dialects/Heddle/Heddle.h"
#include "dialects/Heddle/LibraryOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace heddle;

#include "dialects/Heddle/HeddleDialect.cpp.inc"

#include "dialects/Heddle/HeddleEnums.cpp.inc"

void HeddleDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialects/Heddle/HeddleOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Heddle/HeddleLibraryOps.cpp.inc"
      >();
}

StringRef heddle::getOpName(Operation *op) {
  if (auto name = op->getAttrOfType<StringAttr>("op_name"))
    return name.getValue();
  if (auto name = op->getAttrOfType<StringAttr>(kNameAttrName))
    return name.getValue();
  return "";
}

void heddle::setOpName(Operation *op, StringAttr name) {
  StringRef key = kNameAttrName;
  if (isa_and_nonnull<HeddleDialect>(op->getDialect()) &&
      op->getInherentAttr("op_name"))
    key = "op_name";
  if (name)
    op->setAttr(key, name);
  else
    op->removeAttr(key);
}

DictionaryAttr heddle::getPortAttrs(MLIRContext *context, StringRef name,
                                    PortRoleAttr role) {
  Builder builder(context);
  return builder.getDictionaryAttr(
      {builder.getNamedAttr(kNameAttrName, builder.getStringAttr(name)),
       builder.getNamedAttr(kRoleAttrName, role)});
}

MeshOp heddle::lookupMesh(Operation *from, FlatSymbolRefAttr name) {
  return SymbolTable::lookupNearestSymbolFrom<MeshOp>(from, name);
}
