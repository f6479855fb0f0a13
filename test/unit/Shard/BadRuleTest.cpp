//===- BadRuleTest.cpp - Sharding rules that are wrong --------------------===//
//
// A sharding rule of another dialect that contradicts its op is an error on the
// op.

#include "dialects/Interfaces/Interfaces.h"
#include "heddle/InitAll.h"
#include "heddle/Shard/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace heddle;

namespace {

/// The sharding rule that tensor.bitcast returns.
ShardingRule nextRule;

struct BitcastModel
    : ShardingRuleOpInterface::ExternalModel<BitcastModel, tensor::BitcastOp> {
  ShardingRule getShardingRule(Operation *) const { return nextRule; }
};

/// Returns the error of propagating through a bitcast with the rule; "" if
/// there is none.
std::string propagate() {
  DialectRegistry registry;
  registerAllDialects(registry);
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    tensor::BitcastOp::attachInterface<BitcastModel>(*context);
  });
  MLIRContext context(registry);
  std::string message;
  ScopedDiagnosticHandler handler(
      &context, [&](Diagnostic &diagnostic) { message += diagnostic.str(); });
  auto module = parseSourceString<ModuleOp>(R"(
    heddle.mesh @mesh <["x"=2]>
    func.func @f(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}) -> tensor<8xi32> {
      %0 = tensor.bitcast %x : tensor<8xf32> to tensor<8xi32>
      return %0 : tensor<8xi32>
    })",
                                            &context);
  EXPECT_TRUE(module) << message;
  PassManager manager(&context);
  manager.addPass(createPropagateShardingsPass());
  bool succeeds = succeeded(manager.run(*module));
  EXPECT_EQ(succeeds, message.empty());
  return message;
}

ShardingRule rule() {
  ShardingRule rule;
  unsigned factor = rule.addFactor("", 8, FactorKind::Parallel);
  rule.operands = {{{factor}}};
  rule.results = {{{factor}}};
  return rule;
}

} // namespace

TEST(BadRule, RightOnePasses) {
  nextRule = rule();
  EXPECT_EQ(propagate(), "");
}

TEST(BadRule, NamesTheFactor) {
  nextRule = rule();
  nextRule.results[0][0] = {7};
  EXPECT_EQ(propagate(),
            "'tensor.bitcast' op has a sharding rule of 1 factors, but "
            "dimension 0 of result 0 is run over by factor 7; mend "
            "getShardingRule");
}

TEST(BadRule, NamesTheOperand) {
  nextRule = rule();
  nextRule.linear = {{{3}}};
  EXPECT_EQ(propagate(),
            "'tensor.bitcast' op has a sharding rule that is linear in operand "
            "3, expected one of 1; mend getShardingRule");
}
