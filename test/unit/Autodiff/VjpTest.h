//===- VjpTest.h - A test for each case of an op ----------------*- C++ -*-===//

#ifndef HEDDLE_TEST_AUTODIFF_VJPTEST_H
#define HEDDLE_TEST_AUTODIFF_VJPTEST_H

#include "GradientCheck.h"

namespace heddle::test {

class VjpTest : public AutodiffTest,
                public ::testing::WithParamInterface<OpCase> {
protected:
  static bool isFloat(mlir::Type type) {
    return llvm::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(type));
  }

  std::vector<Tensor> run(mlir::func::FuncOp f,
                          llvm::ArrayRef<Tensor> arguments) {
    Variables none;
    auto results = interpret(f, arguments, none);
    EXPECT_TRUE(succeeded(results)) << diagnostics;
    return succeeded(results) ? *results : std::vector<Tensor>();
  }
};

inline std::string caseName(const ::testing::TestParamInfo<OpCase> &info) {
  return info.param.name;
}

} // namespace heddle::test

#endif // HEDDLE_TEST_AUTODIFF_VJPTEST_H
