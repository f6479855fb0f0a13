//===- GradientCheck.cpp - Gradients against finite differences -----------===//

#include "GradientCheck.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

OwningOpRef<ModuleOp> AutodiffTest::parse(StringRef text) {
  auto module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << diagnostics << text.str();
  return module;
}

func::FuncOp AutodiffTest::function(ModuleOp module, StringRef name) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  EXPECT_TRUE(function) << name.str();
  return function;
}

Tensor AutodiffTest::randomTensor(ArrayRef<int64_t> shape, double low,
                                  double high) {
  Tensor tensor(shape);
  for (double &value : tensor.values)
    value = low + (high - low) * (random() + 1) / 2;
  return tensor;
}

Tensor AutodiffTest::randomIds(ArrayRef<int64_t> shape, int64_t count) {
  Tensor tensor(shape);
  for (double &value : tensor.values)
    value = std::uniform_int_distribution<int64_t>(0, count - 1)(engine);
  return tensor;
}
