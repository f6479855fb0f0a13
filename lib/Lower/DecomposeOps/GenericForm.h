//===- GenericForm.h - Structured ops with explicit loops -------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_DECOMPOSEOPS_GENERICFORM_H
#define HEDDLE_LIB_LOWER_DECOMPOSEOPS_GENERICFORM_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle::lower {

/// Replaces a structured op by the equivalent linalg.generic. A linalg.generic
/// stays. Emits an error on an op without such a form.
mlir::FailureOr<mlir::linalg::GenericOp>
makeGeneric(mlir::RewriterBase &rewriter, mlir::linalg::LinalgOp op);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_DECOMPOSEOPS_GENERICFORM_H
