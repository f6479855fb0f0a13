//===- ControlFlowTest.cpp - Loops, branches and calls on real devices ----===//
//
// Partitions programs with control flow, compiles them to artifacts, runs them
// on the devices of their mesh and compares the results with those of the
// interpreter on the global program.
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Pipelines.h"
#include "heddle_rt/session.h"
#include "mlir/Parser/Parser.h"
#include "test/support/Interpreter/Interpreter.h"
#include "test/support/WithContext.h"
#include "gtest/gtest.h"
#include <cmath>
#include <filesystem>
#include <random>

using namespace mlir;
using namespace heddle;

namespace {

class CompiledControlFlowTest : public ::testing::Test,
                                protected test::WithContext {
protected:
  CompiledControlFlowTest() {
    directory = std::filesystem::temp_directory_path() /
                ("heddle-control-flow-test-" + std::to_string(::getpid()));
  }
  ~CompiledControlFlowTest() override {
    std::filesystem::remove_all(directory);
  }

  /// Compares @f of a program, compiled and run, with the interpreter.
  /// Arguments and results of @f must be tensors of f32.
  void check(const std::string &text) {
    random.seed(11); // the same numbers in each check
    auto global = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(global) << diagnostics;
    OwningOpRef<ModuleOp> local = global->clone();
    ASSERT_TRUE(succeeded(partition(*local))) << diagnostics;
    ASSERT_TRUE(succeeded(
        compileToArtifact(*local, CompileOptions(), directory.string())))
        << diagnostics;

    auto function = global->lookupSymbol<func::FuncOp>("f");
    std::vector<Tensor> arguments;
    std::vector<std::vector<float>> inputs, outputs;
    for (Type type : function.getArgumentTypes()) {
      Tensor tensor(cast<RankedTensorType>(type).getShape());
      inputs.emplace_back();
      for (double &value : tensor.values) {
        float number = std::uniform_real_distribution<float>(-1, 1)(random);
        inputs.back().push_back(number);
        value = number;
      }
      arguments.push_back(std::move(tensor));
    }
    Variables none;
    auto expected = interpret(function, arguments, none);
    ASSERT_TRUE(succeeded(expected)) << diagnostics;
    for (const Tensor &tensor : *expected)
      outputs.emplace_back(tensor.size());

    runtime::SessionOptions options;
    options.coresPerDevice = 1;
    auto session = runtime::Session::load(directory, options);
    ASSERT_TRUE(session.ok()) << session.message();
    std::vector<runtime::ConstBytes> in;
    std::vector<runtime::Bytes> out;
    for (auto &input : inputs)
      in.push_back(runtime::bytesOf(input));
    for (auto &output : outputs)
      out.push_back(runtime::writableBytesOf(output));
    runtime::Status status = (*session)->run("f", in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    for (auto [wanted, got] : llvm::zip(*expected, outputs)) {
      double largest = 0;
      for (double value : wanted.values)
        largest = std::max(largest, std::abs(value));
      ASSERT_GT(largest, 0);
      for (auto [a, b] : llvm::zip(wanted.values, got))
        ASSERT_LE(std::abs(a - b), 1e-5 * largest);
    }
  }

  std::filesystem::path directory;
  std::mt19937 random{11};
};

TEST_F(CompiledControlFlowTest, LoopOfLayers) {
  // The outer loop's index bounds the inner one.
  check(R"mlir(
    heddle.mesh @mesh <["dp"=2, "tp"=2]>
    func.func @f(%x: tensor<6x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>},
                 %w1: tensor<8x10xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"tp"}]>},
                 %w2: tensor<10x8xf32>) -> tensor<6x8xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> tensor<6x8xf32> {
        %end = arith.addi %i, %c1 : index
        %z = scf.for %j = %i to %end step %c1 iter_args(%g = %h) -> tensor<6x8xf32> {
          %u = heddle.contract [bh, hf -> bf] %g, %w1 : (tensor<6x8xf32>, tensor<8x10xf32>) -> tensor<6x10xf32>
          %a = math.tanh %u : tensor<6x10xf32>
          %p = heddle.contract [bf, fh -> bh] %a, %w2 : (tensor<6x10xf32>, tensor<10x8xf32>) -> tensor<6x8xf32>
          scf.yield %p : tensor<6x8xf32>
        }
        %r = arith.addf %z, %h : tensor<6x8xf32>
        scf.yield %r : tensor<6x8xf32>
      }
      return %y : tensor<6x8xf32>
    })mlir");
}

TEST_F(CompiledControlFlowTest, SeveralCallers) {
  check(R"mlir(
    heddle.mesh @mesh <["x"=3]>
    func.func private @layer(%x: tensor<7x4xf32>, %w: tensor<4x4xf32>) -> tensor<7x4xf32> {
      %u = heddle.contract [bh, hf -> bf] %x, %w : (tensor<7x4xf32>, tensor<4x4xf32>) -> tensor<7x4xf32>
      %y = math.tanh %u : tensor<7x4xf32>
      return %y : tensor<7x4xf32>
    }
    func.func @f(%x: tensor<7x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
                 %z: tensor<7x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>},
                 %w: tensor<4x4xf32>) -> (tensor<7x4xf32>, tensor<7x4xf32>) {
      %0 = call @layer(%x, %w) : (tensor<7x4xf32>, tensor<4x4xf32>) -> tensor<7x4xf32>
      %1 = call @layer(%0, %w) : (tensor<7x4xf32>, tensor<4x4xf32>) -> tensor<7x4xf32>
      %2 = call @layer(%z, %w) : (tensor<7x4xf32>, tensor<4x4xf32>) -> tensor<7x4xf32>
      return %1, %2 : tensor<7x4xf32>, tensor<7x4xf32>
    })mlir");
}

// Takes each branch once. The condition is a sum over all devices' parts.
TEST_F(CompiledControlFlowTest, BranchOnASum) {
  for (const char *predicate : {"ogt", "ole"})
    check(std::string(R"mlir(
    heddle.mesh @mesh <["x"=2]>
    func.func @f(%x: tensor<5x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
                 %y: tensor<5x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}) -> tensor<5x4xf32> {
      %limit = arith.constant 0.0625 : f32
      %sum = heddle.reduce sum %x over [0, 1] : tensor<5x4xf32> -> tensor<f32>
      %number = tensor.extract %sum[] : tensor<f32>
      %condition = arith.cmpf )mlir") +
          predicate + R"mlir(, %number, %limit : f32
      %r = scf.if %condition -> tensor<5x4xf32> {
        %e = math.exp %x : tensor<5x4xf32>
        scf.yield %e : tensor<5x4xf32>
      } else {
        %m = arith.mulf %y, %y : tensor<5x4xf32>
        scf.yield %m : tensor<5x4xf32>
      }
      %s = tensor.splat %number : tensor<5x4xf32>
      %t = arith.addf %r, %s : tensor<5x4xf32>
      return %t : tensor<5x4xf32>
    })mlir");
}

} // namespace
