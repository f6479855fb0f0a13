//===- PaddingTest.cpp - Masks that sharding rules need -------------------===//

#include "lib/Shard/Localize/Padding.h"
#include "ProgramTest.h"
#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace heddle;

namespace {

class PaddingTest : public ProgramTest {
protected:
  /// Returns the masks of an op on a tensor<6xf32> with that rule, whose only
  /// loop is split over four devices.
  FailureOr<SmallVector<OperandMask>> find(const ShardingRule &rule) {
    module = parseSourceString<ModuleOp>(
        "heddle.mesh @mesh <[\"tp\"=4]>\n"
        "func.func @f(%x: tensor<6xf32>) {\n"
        "  \"foreign.sum\"(%x) : (tensor<6xf32>) -> ()\n  return\n}\n",
        ParserConfig(&context));
    Operation *op =
        &module->lookupSymbol<func::FuncOp>("f").getBody().front().front();
    MeshRef mesh = getMesh(*module);
    FactorAxes axes = {{mesh.mesh.getAxes()[0].getName()}};
    PaddingOfDims unknown = {Padding::Unknown};
    return findMasks(op, rule, axes, mesh.mesh, unknown);
  }

  static ShardingRule sum() {
    ShardingRule rule;
    rule.addFactor("f", 6, FactorKind::Sum);
    rule.operands = {{{0}}};
    return rule;
  }

  OwningOpRef<ModuleOp> module;
};

TEST_F(PaddingTest, ForeignSumLinearInNothingIsRefused) {
  context.allowUnregisteredDialects();
  EXPECT_TRUE(failed(find(sum())));
  EXPECT_NE(diagnostics.find(
                "'foreign.sum' op factor f of size 6 cannot be padded for 4 "
                "devices over \"tp\": the op is linear in no operand that it "
                "reduces; the nearest legal degrees are 3 and 6"),
            std::string::npos)
      << diagnostics;
}

TEST_F(PaddingTest, ForeignSumThatIsLinearIsMasked) {
  context.allowUnregisteredDialects();
  ShardingRule rule = sum();
  rule.linear = {{{0}}};
  auto masks = find(rule);
  ASSERT_TRUE(succeeded(masks)) << diagnostics;
  ASSERT_EQ(masks->size(), 1u);
  EXPECT_EQ(masks->front().value, PaddingValue::Zero);
}

TEST_F(PaddingTest, ForeignSumThatMasksItselfIsLeft) {
  context.allowUnregisteredDialects();
  ShardingRule rule = sum();
  rule.factors[0].masksItself = true;
  auto masks = find(rule);
  ASSERT_TRUE(succeeded(masks)) << diagnostics;
  EXPECT_TRUE(masks->empty());
}

/// A rule that sums over the first dimension and takes the maximum over the
/// second one.
struct TwoReductionsModel
    : ShardingRuleOpInterface::ExternalModel<TwoReductionsModel,
                                             tensor::CastOp> {
  ShardingRule getShardingRule(Operation *) const {
    ShardingRule rule;
    rule.addFactor("s", 4, FactorKind::Sum);
    rule.addFactor("m", 6, FactorKind::Max);
    rule.operands = {{{0}, {1}}};
    rule.results = {{{}, {}}};
    return rule;
  }
};

TEST_F(PaddingTest, ResultIsReducedInOneWay) {
  tensor::CastOp::attachInterface<TwoReductionsModel>(context);
  module = parseSourceString<ModuleOp>(
      "func.func @f(%x: tensor<4x6xf32>) {\n"
      "  tensor.cast %x : tensor<4x6xf32> to tensor<4x6xf32>\n"
      "  return\n}\n",
      ParserConfig(&context));
  ASSERT_TRUE(module) << diagnostics;
  ShardingRule rule = getRule(
      &module->lookupSymbol<func::FuncOp>("f").getBody().front().front());
  ASSERT_EQ(rule.factors.size(), 2u);
  EXPECT_EQ(rule.factors[0].kind, FactorKind::Sum);
  EXPECT_EQ(rule.factors[1].kind, FactorKind::Replicate);
}

} // namespace
