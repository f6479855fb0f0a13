//===- HeddleStateVerifiers.cpp - Constraints of variables ----------------===//
//
// Each verifier mirrors the list of constraints in its op's description.
//
//===----------------------------------------------------------------------===//

#include "dialects/Heddle/Heddle.h"

using namespace mlir;
using namespace heddle;

/// Prints a shape as 4x256x768.
static std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleave(shape, stream, "x");
  return text;
}

RankedTensorType VariableOp::getWholeType() {
  RankedTensorType type = getTensorType();
  SliceAttr slice = getSliceAttr();
  if (!slice || slice.getDim() >= type.getRank())
    return type;
  SmallVector<int64_t> shape(type.getShape());
  shape[slice.getDim()] = slice.getSize();
  return type.clone(shape);
}

LogicalResult VariableOp::verify() {
  RankedTensorType type = getTensorType();
  if (!type.hasStaticShape() || !type.getElementType().isIntOrFloat())
    return emitOpError() << "expected a static tensor of numbers, got " << type;
  if (SliceAttr slice = getSliceAttr()) {
    if (slice.getDim() >= type.getRank())
      return emitOpError() << "expected the slice to cut a dimension of "
                           << type << ", got dimension " << slice.getDim();
    int64_t rows = type.getDimSize(slice.getDim());
    if (rows > slice.getSize() || slice.getOffset() > slice.getSize() - rows)
      return emitOpError() << "expected the slice's " << rows
                           << " rows to lie within the " << slice.getSize()
                           << " of " << slice.getOf() << ", got the offset "
                           << slice.getOffset();
  }
  if (CheckpointAttr checkpoint = getCheckpointAttr()) {
    int64_t elements = 1;
    for (int64_t size : checkpoint.getShape()) {
      if (size < 0)
        return emitOpError() << "expected the checkpoint's tensor to have "
                                "sizes of at least 0, got "
                             << size;
      if (llvm::MulOverflow(elements, size, elements))
        return emitOpError() << "expected the checkpoint's tensor to have less "
                                "than 2^63 elements, got "
                             << shapeText(checkpoint.getShape());
    }
    RankedTensorType whole = getWholeType();
    if (elements != whole.getNumElements())
      return emitOpError() << "expected the checkpoint's tensor to have "
                           << whole.getNumElements() << " elements as " << whole
                           << " has, got " << elements << " in "
                           << shapeText(checkpoint.getShape());
  }
  if (ShardingAttr storage = getStorageAttr()) {
    if (storage.getRank() != type.getRank())
      return emitOpError() << "expected the storage to have " << type.getRank()
                           << " dimensions as " << type << " has, got "
                           << storage.getRank();
    if (storage.isPartial() &&
        (!isSumOfStep() || getInit().getKind() != InitKind::Zeros ||
         storage.getPartialKind() != ReductionKind::Sum))
      return emitOpError() << "expected the storage not to be partial, but for "
                              "sums of gradients that start from zeros";
  }
  if (StateAttr state = getStateAttr(); state && state.getRole() != getRole())
    return emitOpError() << "expected role "
                         << stringifyVariableRole(state.getRole())
                         << ", which the state "
                         << stringifyStateKind(state.getKind()) << " has, got "
                         << stringifyVariableRole(getRole());
  return success();
}

LogicalResult VariableOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateAttr state = getStateAttr();
  if (!state)
    return success();
  auto parameter =
      tables.lookupNearestSymbolFrom<VariableOp>(*this, state.getParameter());
  if (parameter && parameter.getRole() == VariableRole::Parameter)
    return success();
  return emitOpError() << "expected " << state.getParameter()
                       << ", whose state it is, to be a heddle.variable of "
                          "role parameter in this module";
}

static LogicalResult verifyAccess(Operation *op, FlatSymbolRefAttr symbol,
                                  Type type, SymbolTableCollection &tables) {
  auto variable = tables.lookupNearestSymbolFrom<VariableOp>(op, symbol);
  if (!variable)
    return op->emitOpError() << "expected " << symbol
                             << " to be a heddle.variable in this module";
  RankedTensorType local;
  if (ShardingAttr storage = variable.getStorageAttr()) {
    auto mesh = tables.lookupNearestSymbolFrom<MeshOp>(op, storage.getMesh());
    if (!mesh)
      return op->emitOpError()
             << "expected " << storage.getMesh() << ", over which " << symbol
             << " is stored, to be a heddle.mesh in this module";
    SmallVector<StringAttr> axes(storage.getPartialAxes());
    for (AxisListAttr dim : storage.getDims())
      llvm::append_range(axes, dim.getAxes());
    for (StringAttr axis : axes)
      if (!mesh.getMesh().getAxisSize(axis))
        return op->emitOpError()
               << "expected " << symbol << " to be stored over axes of "
               << mesh.getMesh() << ", got " << axis;
    local = storage.getLocalType(variable.getTensorType(), mesh.getMesh());
  }
  if (type == variable.getTensorType() || type == local)
    return success();
  InFlightDiagnostic diag = op->emitOpError()
                            << "expected the type of " << symbol << ", "
                            << variable.getTensorType();
  if (local && local != variable.getTensorType())
    diag << " (or " << local << " on one device)";
  diag << ", got " << type;
  diag.attachNote(variable.getLoc()) << "declared here";
  return diag;
}

LogicalResult LoadOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyAccess(*this, getVariableAttr(), getType(), tables);
}

LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyAccess(*this, getVariableAttr(), getValue().getType(), tables);
}
