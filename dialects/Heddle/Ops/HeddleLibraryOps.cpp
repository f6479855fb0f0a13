//===- HeddleLibraryOps.cpp - Ops for what libraries fuse -----------------===//

#include "dialects/Heddle/Contraction.h"
#include "dialects/Heddle/LibraryOps.h"
#include "heddle/Support/Bytes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace heddle;

#include "dialects/Heddle/HeddleEpilogues.cpp.inc"

std::string heddle::getKeptLetters(ContractionAttr contraction, bool ofLhs) {
  std::string kept;
  for (char letter :
       (ofLhs ? contraction.getLhs() : contraction.getRhs()).getValue())
    if (contraction.getResult().getValue().contains(letter))
      kept += letter;
  return kept;
}

/// Returns the type of the extra result, or null if the epilogue has none.
static RankedTensorType getExtraType(FusedContractOp op) {
  RankedTensorType result = op.getResult().getType();
  if (op.getEpilogue() == ProductEpilogue::Gelu)
    return result;
  if (op.getEpilogue() == ProductEpilogue::GeluGrad)
    return RankedTensorType();
  bool ofLhs = op.getEpilogue() == ProductEpilogue::LhsSums;
  ContractionAttr contraction = op.getContraction();
  Value operand = ofLhs ? op.getLhs() : op.getRhs();
  StringRef letters =
      (ofLhs ? contraction.getLhs() : contraction.getRhs()).getValue();
  SmallVector<int64_t> shape;
  for (char letter : getKeptLetters(contraction, ofLhs))
    shape.push_back(cast<RankedTensorType>(operand.getType())
                        .getDimSize(letters.find(letter)));
  return RankedTensorType::get(shape, result.getElementType());
}

LogicalResult FusedContractOp::verify() {
  if (failed(verifyContraction(
          *this, getContraction(),
          {getLhs(), getRhs(), getResult(), getBias(), getAccumulate()},
          getBiasAlong())))
    return failure();
  bool isGelu = getEpilogue() == ProductEpilogue::Gelu;
  bool isGrad = getEpilogue() == ProductEpilogue::GeluGrad;
  StringRef name = stringifyProductEpilogue(getEpilogue());
  if (getBias() && !isGelu)
    return emitOpError() << "expected no bias with " << name;
  if (getAccumulate() && (isGelu || isGrad))
    return emitOpError() << "expected no accumulate with " << name;
  if (bool(getInput()) != isGrad)
    return emitOpError() << "expected " << (isGrad ? "an" : "no")
                         << " input with " << name;
  if (getInput() && getInput().getType() != getResult().getType())
    return emitOpError() << "expected an input of type "
                         << getResult().getType() << ", got "
                         << getInput().getType();
  RankedTensorType expected = getExtraType(*this);
  Type extra = getExtra() ? getExtra().getType() : Type();
  if (extra == expected)
    return success();
  InFlightDiagnostic diag = emitOpError() << "expected ";
  if (expected)
    diag << "an extra result of type " << expected;
  else
    diag << "no extra result";
  diag << " with " << name << ", got ";
  if (extra)
    diag << extra;
  else
    diag << "none";
  return diag;
}

// Every operand is read once and every result written once. The epilogue counts
// one operation for each element.
Work FusedContractOp::getWork() {
  Work work;
  work.flops = 2 * countMultiplyAdds(getContraction(), getLhs(), getRhs()) +
               cast<RankedTensorType>(getResult().getType()).getNumElements();
  for (Value operand : getOperation()->getOperands())
    work.bytesRead += getBytes(operand.getType());
  for (Value result : getOperation()->getResults())
    work.bytesWritten += getBytes(result.getType());
  return work;
}

#define GET_OP_CLASSES
#include "dialects/Heddle/HeddleLibraryOps.cpp.inc"
