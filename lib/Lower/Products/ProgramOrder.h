//===- ProgramOrder.h - Patterns in program order ---------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_PRODUCTS_PROGRAMORDER_H
#define HEDDLE_LIB_LOWER_PRODUCTS_PROGRAMORDER_H

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace heddle {

/// Applies patterns in program order, without simplifying regions. No pattern
/// may make another one match at an earlier op.
inline mlir::LogicalResult
applyInProgramOrder(mlir::Operation *root, mlir::RewritePatternSet patterns) {
  mlir::GreedyRewriteConfig config;
  config.useTopDownTraversal = true;
  config.enableRegionSimplification = mlir::GreedySimplifyRegionLevel::Disabled;
  return mlir::applyPatternsAndFoldGreedily(root, std::move(patterns), config);
}

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PRODUCTS_PROGRAMORDER_H
