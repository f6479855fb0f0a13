//===- ContractionLayout.h - A contraction as products in loops -*- C++ -*-===//
//
// Finds the layout in which one heddle_rt_matmul_desc, a matrix product in
// loops, computes a contraction over dense tensors. Letters that are adjacent
// in every tensor that has them are merged. B is the operand that has the
// result's inner dimension, so that C's rows are contiguous. That dimension
// becomes n. One dimension that only A and C share becomes m, and one summed
// dimension becomes k. All others become loops. If A and B both have the
// result's inner dimension (a batch letter), it becomes a loop too, and n is 1.
//
// Example, GPT-2's c_attn, [bsh, hcnd -> cbsnd]: m = b s, n = n d, k = h, and a
// loop over c.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_PRODUCTS_CONTRACTIONLAYOUT_H
#define HEDDLE_LIB_LOWER_PRODUCTS_CONTRACTIONLAYOUT_H

#include "dialects/Heddle/Heddle.h"

namespace heddle {

struct ProductLayout {
  struct Loop {
    int64_t extent, a, b, c, bias;
  };
  bool swapped = false; ///< A is the contraction's rhs
  int64_t m = 1, n = 1, k = 1;
  int64_t aStrides[2], bStrides[2]; ///< row, column
  int64_t cRowStride;
  llvm::SmallVector<Loop, 4> loops; ///< outermost first
};

/// Finds the layout. The bias has the result's dimensions `biasAlong`. On
/// failure, `why` tells what cannot be expressed.
std::optional<ProductLayout>
getProductLayout(ContractionAttr contraction, mlir::RankedTensorType lhs,
                 mlir::RankedTensorType rhs, mlir::RankedTensorType result,
                 std::optional<llvm::ArrayRef<int64_t>> biasAlong,
                 std::string &why);

/// The layout of a product that also sums an operand. Says whether the sums are
/// those of A's rows or of B's columns.
struct SumsLayout {
  ProductLayout product;
  bool ofA;
};

/// Finds the layout of a product that also sums lhs or rhs over the letters
/// that the result lacks. Sums of B advance with the loops, as a bias does.
/// Sums of A need a layout without loops.
std::optional<SumsLayout> getSumsLayout(ContractionAttr contraction,
                                        mlir::RankedTensorType lhs,
                                        mlir::RankedTensorType rhs,
                                        mlir::RankedTensorType result,
                                        bool ofLhs, std::string &why);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PRODUCTS_CONTRACTIONLAYOUT_H
