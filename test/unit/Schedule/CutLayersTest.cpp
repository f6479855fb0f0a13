//===- CutLayersTest.cpp - A model with fewer equal layers ----------------===//

#include "heddle/Schedule/CutLayers.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace heddle;

namespace {

/// Returns a model of `layers` layers between two products of other sizes.
std::string makeModel(int layers) {
  std::string variables, body;
  llvm::raw_string_ostream v(variables), b(body);
  auto multiply = [&](const std::string &name, int inner, int outer,
                      const std::string &x, const std::string &y) {
    v << "heddle.variable @" << name << " : tensor<" << inner << "x" << outer
      << "xf32> parameter init(zeros)\n";
    b << "%" << name << " = heddle.load @" << name << " : tensor<" << inner
      << "x" << outer << "xf32>\n"
      << y << " = heddle.contract [bh, hf -> bf] " << x << ", %" << name
      << " : (tensor<2x" << inner << "xf32>, tensor<" << inner << "x" << outer
      << "xf32>) -> tensor<2x" << outer << "xf32>\n";
  };
  multiply("first", 3, 8, "%x", "%y0");
  for (int i = 0; i < layers; ++i) {
    std::string number = std::to_string(i), next = std::to_string(i + 1);
    multiply("w" + number, 8, 8, "%y" + number, "%z" + number);
    b << "%y" << next << " = arith.addf %y" << number << ", %z" << number
      << " : tensor<2x8xf32>\n";
  }
  multiply("last", 8, 5, "%y" + std::to_string(layers), "%out");
  return variables +
         "func.func @forward(%x: tensor<2x3xf32>) -> tensor<2x5xf32> {\n" +
         body + "return %out : tensor<2x5xf32>\n}\n";
}

class CutLayers : public testing::Test {
protected:
  CutLayers() {
    context.loadDialect<HeddleDialect, mlir::arith::ArithDialect,
                        mlir::func::FuncDialect>();
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return module;
  }

  mlir::MLIRContext context;
};

std::string print(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

TEST_F(CutLayers, ADeepModelBecomesAShortOne) {
  auto module = parse(makeModel(12));
  ASSERT_EQ(countEqualLayers(*module), 12);
  keepLayers(*module, 3);
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
  EXPECT_EQ(countEqualLayers(*module), 3);
  EXPECT_EQ(print(*module), print(*parse(makeModel(3))));
}

TEST_F(CutLayers, AModelWithoutLayersHasNone) {
  EXPECT_EQ(countEqualLayers(*parse(
                "func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
                "return %x : tensor<2xf32>\n}\n")),
            0);
  EXPECT_EQ(countEqualLayers(*parse("func.func @main() { return }")), 0);
}

TEST_F(CutLayers, AGlobStandsForAllLayersOrForSome) {
  for (const char *glob :
       {"*", "h.*", "h.*.mlp", "*.mlp.c_fc", "conv1", "ln_*"})
    EXPECT_FALSE(namesLayers(glob)) << glob;
  for (const char *glob : {"h.3.mlp", "h.1*.mlp", "h.?.mlp", "h.*2", "*.0.*"})
    EXPECT_TRUE(namesLayers(glob)) << glob;
}

} // namespace
