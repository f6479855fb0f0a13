//===- PropagationTest.cpp - Propagation as a function --------------------===//
//
// Calls propagateShardings as a planner does: with assignments made in memory,
// on a module without attributes. The module must not change. The decisions
// must be those that heddle-propagate-shardings writes if attributes state the
// same assignments.
//
//===----------------------------------------------------------------------===//

#include "ProgramTest.h"
#include "lib/Shard/Propagate/WriteAssignment.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "test/support/WithContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

/// A program with every kind of stated sharding: factors (one of them kept
/// whole), a pin with a priority, arguments and results, storage and storage
/// axes. A loop carries a value, a call passes a value on, and a gradient
/// accumulates.
constexpr StringLiteral kStated = R"mlir(
heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w : tensor<8x16xf32> parameter init(zeros)
heddle.variable @grad.w : tensor<8x16xf32> gradient init(zeros)
heddle.variable @state : tensor<8x16xf32> optimizer_state init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"dp"}, {}]>}
heddle.variable @table : tensor<4xf32> optimizer_state init(zeros) storage(<@mesh, [{"tp"}]>)
func.func @f(%x: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>}, %dy: tensor<8x16xf32>)
    -> (tensor<8x16xf32>, tensor<8x16xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"tp"}]>, heddle.priority = 2 : i64}) {
  %w = heddle.load @w : tensor<8x16xf32>
  %0 = heddle.contract "c" [bh, hf -> bf] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}, "h" = {}]>} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = math.tanh %0 {heddle.pin = #heddle.sharding<@mesh, [{"tp"}, {"dp"}]>, heddle.priority = 1 : i64} : tensor<8x16xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %1) -> tensor<8x16xf32> {
    %e = func.call @half(%h) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    scf.yield %e : tensor<8x16xf32>
  }
  %dw = heddle.contract "c" pass(wgrad) [bh, bf -> hf] %x, %dy {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %g = heddle.load @grad.w : tensor<8x16xf32>
  %s = arith.addf %g, %dw : tensor<8x16xf32>
  heddle.store %s, @grad.w : tensor<8x16xf32>
  %m = heddle.load @state : tensor<8x16xf32>
  %n = math.exp %m : tensor<8x16xf32>
  heddle.store %n, @state : tensor<8x16xf32>
  %t = heddle.load @table : tensor<4xf32>
  heddle.store %t, @table : tensor<4xf32>
  return %2, %0 : tensor<8x16xf32>, tensor<8x16xf32>
}
func.func private @half(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %y = math.sqrt %x : tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
)mlir";

/// Removes the mesh and all attributes that refer to it.
void removeStatements(ModuleOp module) {
  for (auto mesh : llvm::make_early_inc_range(module.getOps<MeshOp>()))
    mesh.erase();
  module.walk([](Operation *op) {
    for (StringRef name : {kFactorsAttrName, kPinAttrName, kPriorityAttrName,
                           kStorageAxesAttrName})
      op->removeAttr(name);
    if (auto variable = dyn_cast<VariableOp>(op))
      variable.removeStorageAttr();
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      return;
    function.removeArgAttrsAttr();
    function.removeResAttrsAttr();
  });
}

class PropagationTest : public testing::Test, protected test::WithContext {
protected:
  PropagationTest()
      : stated(parseSourceString<ModuleOp>(kStated, &context)),
        module(stated->clone()) {
    mesh.symbol = FlatSymbolRefAttr::get(&context, "mesh");
    mesh.mesh = MeshAttr::get(&context, {MeshAxisAttr::get(&context, dp, 2),
                                         MeshAxisAttr::get(&context, tp, 2)});
    removeStatements(*module);
  }

  template <typename Op> Op find(unsigned index = 0) {
    SmallVector<Op> ops;
    module->walk([&](Op op) { ops.push_back(op); });
    return ops[index];
  }
  ShardingAttr lie(ArrayRef<Axes> dims) { return makeSharding(mesh, dims); }

  /// Makes by hand the assignment that the attributes of `stated` state.
  PartialAssignment makeAssignment() {
    PartialAssignment given;
    auto forward = find<ContractOp>(0), backward = find<ContractOp>(1);
    auto factorsOf = [&](Operation * op) -> auto & {
      auto &axes = given.operators[op].axes;
      axes.resize(getRule(op).factors.size());
      return axes;
    };
    auto letter = [](Operation *op, StringRef name) {
      return *getRule(op).getFactor(name);
    };
    factorsOf(forward)[letter(forward, "f")] = Axes{tp};
    factorsOf(forward)[letter(forward, "h")] = Axes{};
    factorsOf(backward)[letter(backward, "b")] = Axes{dp};
    auto tanh = forward->getNextNode();
    given.pins[tanh->getResult(0)] = {lie({{tp}, {dp}}), 1};
    auto function = find<func::FuncOp>();
    given.arguments[function.getArgument(0)] = {lie({{dp}, {}}), 0};
    given.results[&find<func::ReturnOp>()->getOpOperand(1)] = {lie({{}, {tp}}),
                                                               2};
    given.storageAxes[StringAttr::get(&context, "state")] = {{dp}, {}};
    given.storage[StringAttr::get(&context, "table")] = lie({{tp}});
    return given;
  }

  StringAttr dp = StringAttr::get(&context, "dp");
  StringAttr tp = StringAttr::get(&context, "tp");
  OwningOpRef<ModuleOp> stated, module;
  MeshRef mesh;
};

} // namespace

TEST_F(PropagationTest, DecidesWithoutAttributesOrChange) {
  std::string before = toString(*module);
  auto assignment = propagateShardings(*module, mesh, makeAssignment());
  ASSERT_TRUE(succeeded(assignment)) << diagnostics;
  EXPECT_EQ(toString(*module), before);

  // Checks one decision of each kind.
  auto forward = find<ContractOp>();
  EXPECT_EQ(DimensionAxes(assignment->getAxes(forward.getResult())),
            DimensionAxes({{dp}, {tp}}));
  EXPECT_EQ(assignment->carried.begin()->second.front(), lie({{tp}, {dp}}));
  EXPECT_EQ(assignment->storage.lookup(StringAttr::get(&context, "grad.w")),
            makeSharding(mesh, {{}, {}}, {dp}));
  EXPECT_EQ(assignment->storage.lookup(StringAttr::get(&context, "state")),
            lie({{dp}, {}}));
  EXPECT_EQ(assignment->storage.lookup(StringAttr::get(&context, "w")),
            lie({{}, {tp}}));
  EXPECT_TRUE(assignment->getFactors(find<LoadOp>()).empty());

  // A second call with another assignment does not depend on the first.
  PartialAssignment other = makeAssignment();
  other.gradientReduction = GradientReduction::MicroBatch;
  other.operators.erase(forward);
  auto second = propagateShardings(*module, mesh, other);
  ASSERT_TRUE(succeeded(second)) << diagnostics;
  EXPECT_EQ(second->storage.lookup(StringAttr::get(&context, "grad.w")),
            lie({{}, {}}));
  EXPECT_EQ(toString(*module), before);
}

TEST_F(PropagationTest, DecidesWhatThePassWrites) {
  auto assignment = propagateShardings(*module, mesh, makeAssignment());
  ASSERT_TRUE(succeeded(assignment)) << diagnostics;
  writeAssignment(*module, mesh, *assignment);
  ASSERT_TRUE(runPasses(*stated, "heddle-propagate-shardings")) << diagnostics;
  // The pass keeps the user's pins and priorities, so the test removes them.
  for (auto present : llvm::make_early_inc_range(stated->getOps<MeshOp>()))
    present.erase();
  stated->walk([](Operation *op) {
    op->removeAttr(kPinAttrName);
    op->removeAttr(kPriorityAttrName);
    if (auto function = dyn_cast<func::FuncOp>(op))
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        function.removeResultAttr(
            i, StringAttr::get(op->getContext(), kPriorityAttrName));
  });
  EXPECT_EQ(toString(*module), toString(*stated));
}

TEST_F(PropagationTest, ReadsWhatAttributesState) {
  auto read = readAssignment(*stated, mesh);
  ASSERT_TRUE(succeeded(read)) << diagnostics;
  PartialAssignment made = makeAssignment();
  ASSERT_EQ(read->operators.size(), made.operators.size());
  for (auto [mine, theirs] : llvm::zip(made.operators, read->operators)) {
    EXPECT_EQ(mine.second.axes, theirs.second.axes);
    EXPECT_EQ(mine.second.priority, theirs.second.priority);
  }
  ASSERT_EQ(read->pins.size(), 1u);
  EXPECT_EQ(read->pins.front().second.sharding, lie({{tp}, {dp}}));
  EXPECT_EQ(read->pins.front().second.priority, 1);
  ASSERT_EQ(read->results.size(), 1u);
  EXPECT_EQ(read->results.begin()->second.priority, 2);
  EXPECT_EQ(read->arguments.size(), 1u);
  EXPECT_EQ(read->storage.size(), 1u);
  EXPECT_EQ(read->storageAxes.size(), 1u);
}

TEST_F(PropagationTest, RefusesWhatCannotBe) {
  auto expectError = [&](const PartialAssignment &given, StringRef message) {
    diagnostics.clear();
    EXPECT_TRUE(failed(propagateShardings(*module, mesh, given)));
    EXPECT_NE(diagnostics.find(message.str()), std::string::npos)
        << diagnostics;
  };
  auto contract = find<ContractOp>();
  PartialAssignment given = makeAssignment();
  given.operators[contract].axes.pop_back();
  expectError(given, "expected axes for its 3 factors, got them for 2");

  given = makeAssignment();
  given.operators[contract].axes[0] = Axes{StringAttr::get(&context, "pp")};
  expectError(given, "expected an axis of");

  given = makeAssignment();
  given.operators[find<LoadOp>()].axes = {};
  expectError(given, "has no factors in this module");

  given = makeAssignment();
  given.pins[contract.getResult()] = {lie({{tp}}), 0};
  expectError(given, "expected a sharding of 2 dimensions");

  given = makeAssignment();
  given.storage[StringAttr::get(&context, "w")] = lie({{tp}});
  expectError(given, "expected a sharding of 2 dimensions");
}
