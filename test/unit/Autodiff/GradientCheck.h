//===- GradientCheck.h - Gradients against finite differences ---*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_AUTODIFF_GRADIENTCHECK_H
#define HEDDLE_TEST_UNIT_AUTODIFF_GRADIENTCHECK_H

#include "test/support/Interpreter/Interpreter.h"
#include "test/support/WithContext.h"
#include <gtest/gtest.h>
#include <random>

namespace heddle::test {

class AutodiffTest : public ::testing::Test, protected WithContext {
protected:
  /// Parses a module. The test fails if the text is not valid.
  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text);
  static mlir::func::FuncOp function(mlir::ModuleOp module,
                                     llvm::StringRef name);

  /// Returns a number drawn uniformly from [-1, 1).
  double random() { return std::uniform_real_distribution<>(-1, 1)(engine); }
  Tensor randomTensor(llvm::ArrayRef<int64_t> shape, double low = -1,
                      double high = 1);
  /// Returns a tensor of random whole numbers from 0 to count - 1.
  Tensor randomIds(llvm::ArrayRef<int64_t> shape, int64_t count);

  std::mt19937 engine{1};
};

struct OpCase {
  std::string name;
  /// `(%x: tensor<2x3xf32>, …) -> (types) { ops, return }`
  std::string function;
  double low = -1, high = 1; ///< range of the float arguments
  int64_t ids = 3;           ///< integer arguments are less than this
  /// Only the first `numSeeds` results have a gradient; all by default.
  unsigned numSeeds = ~0u;
};

inline void PrintTo(const OpCase &c, std::ostream *os) { *os << c.name; }

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_AUTODIFF_GRADIENTCHECK_H
