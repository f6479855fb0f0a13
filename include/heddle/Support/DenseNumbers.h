//===- DenseNumbers.h - The numbers of a constant tensor --------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_DENSENUMBERS_H
#define HEDDLE_SUPPORT_DENSENUMBERS_H

#include "heddle/Support/Bytes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectResourceBlobManager.h"

namespace heddle {

/// Returns the bytes of a `dense_resource`, as they lie in memory. Reports an
/// error if the file lacks the resource, or if its size does not fit the type.
inline mlir::FailureOr<llvm::ArrayRef<char>>
getResourceBytes(mlir::DenseResourceElementsAttr value,
                 llvm::function_ref<mlir::InFlightDiagnostic()> emitError) {
  mlir::DenseResourceElementsHandle handle = value.getRawHandle();
  mlir::AsmResourceBlob *blob = handle.getBlob();
  if (!blob)
    return emitError() << "expected the resource '" << handle.getKey()
                       << "' among the file's dialect_resources, got none";
  mlir::ShapedType type = value.getType();
  int64_t expected =
      type.getNumElements() * getElementBytes(type.getElementType());
  if (int64_t(blob->getData().size()) != expected)
    return emitError() << "expected the resource '" << handle.getKey()
                       << "' to hold " << expected << " bytes for " << type
                       << ", got " << blob->getData().size();
  return blob->getData();
}

/// Returns the constant's numbers. Those of a `dense_resource` are copied out
/// of the resource.
inline mlir::FailureOr<mlir::DenseElementsAttr>
getDenseNumbers(mlir::ElementsAttr value,
                llvm::function_ref<mlir::InFlightDiagnostic()> emitError) {
  if (auto dense = mlir::dyn_cast<mlir::DenseIntOrFPElementsAttr>(value))
    return dense;
  auto resource = mlir::dyn_cast<mlir::DenseResourceElementsAttr>(value);
  if (!resource)
    return emitError() << "expected dense numbers";
  mlir::FailureOr<llvm::ArrayRef<char>> bytes =
      getResourceBytes(resource, emitError);
  if (mlir::failed(bytes))
    return mlir::failure();
  // For i1, a resource holds a byte for each element, the attribute a bit.
  if (resource.getElementType().isInteger(1)) {
    llvm::SmallVector<bool> values;
    for (char byte : *bytes)
      values.push_back(byte != 0);
    return mlir::DenseElementsAttr::get(resource.getType(), values);
  }
  return mlir::DenseElementsAttr::getFromRawBuffer(resource.getType(), *bytes);
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_DENSENUMBERS_H
