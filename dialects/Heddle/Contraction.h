//===- Contraction.h - What all contractions share --------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_CONTRACTION_H
#define HEDDLE_DIALECTS_HEDDLE_CONTRACTION_H

#include "dialects/Heddle/Heddle.h"

namespace heddle {

mlir::ParseResult parseBareContraction(mlir::AsmParser &parser,
                                       ContractionAttr &contraction);
void printBareContraction(mlir::AsmPrinter &printer,
                          ContractionAttr contraction);
/// The same as a custom directive of an op's assembly format.
void printBareContraction(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                          ContractionAttr contraction);

/// The tensors of a contraction. `bias` and `accumulate` may be null.
struct ContractionTensors {
  mlir::Value lhs, rhs, result, bias, accumulate;
};

/// Checks the constraints of heddle.contract.
mlir::LogicalResult
verifyContraction(mlir::Operation *op, ContractionAttr contraction,
                  const ContractionTensors &tensors,
                  std::optional<llvm::ArrayRef<int64_t>> biasAlong);

/// Returns the multiply-adds of a contraction: one for every combination of the
/// letters' values.
int64_t countMultiplyAdds(ContractionAttr contraction, mlir::Value lhs,
                          mlir::Value rhs);

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_CONTRACTION_H
