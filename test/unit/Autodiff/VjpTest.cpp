//===- VjpTest.cpp - Vector-Jacobian products against finite differences --===//
//
// Compares the vector-Jacobian products of ops with central differences.

#include "VjpTest.h"
#include "heddle/Autodiff/Autodiff.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

TEST_P(VjpTest, EqualsFiniteDifferences) {
  const OpCase &c = GetParam();
  auto module = parse("func.func @f" + c.function);
  ASSERT_TRUE(module);
  func::FuncOp forward = function(*module, "f");

  // The gradient function takes the arguments and then one seed for each
  // result.
  func::FuncOp backward = forward.clone();
  backward.setName("g");
  module->push_back(backward);
  Block &body = backward.getBody().front();
  auto terminator = cast<func::ReturnOp>(body.getTerminator());
  SmallVector<Value> wrt;
  for (BlockArgument argument : body.getArguments())
    if (isFloat(argument.getType()))
      wrt.push_back(argument);
  SmallVector<Seed> seeds;
  for (Value result : terminator.getOperands().take_front(c.numSeeds))
    seeds.push_back(
        {result, body.addArgument(result.getType(), backward.getLoc())});
  OpBuilder builder(terminator);
  auto gradients = buildGradients(builder, body, seeds, wrt);
  ASSERT_TRUE(succeeded(gradients)) << diagnostics;
  for (Value gradient : *gradients)
    ASSERT_TRUE(gradient);
  terminator.getOperandsMutable().assign(*gradients);
  backward.setFunctionType(builder.getFunctionType(
      body.getArgumentTypes(), terminator.getOperandTypes()));
  ASSERT_TRUE(succeeded(verify(*module))) << diagnostics;

  // `computed` holds the products of random seeds with the Jacobian at random
  // arguments.
  std::vector<Tensor> arguments;
  for (Type type : forward.getArgumentTypes()) {
    ArrayRef<int64_t> shape;
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      shape = tensor.getShape();
    arguments.push_back(isFloat(type) ? randomTensor(shape, c.low, c.high)
                                      : randomIds(shape, c.ids));
  }
  std::vector<Tensor> all = arguments, weights;
  for (const Seed &seed : seeds) {
    auto type = cast<RankedTensorType>(seed.gradient.getType());
    weights.push_back(randomTensor(type.getShape()));
    all.push_back(weights.back());
  }
  std::vector<Tensor> computed = run(backward, all);
  ASSERT_EQ(computed.size(), wrt.size());

  auto objective = [&] {
    std::vector<Tensor> results = run(forward, arguments);
    double sum = 0;
    for (auto [result, weight] : llvm::zip(results, weights))
      for (auto [x, w] : llvm::zip(result.values, weight.values))
        sum += x * w;
    return sum;
  };
  const double step = 1e-5;
  double largest = 0;
  for (unsigned a = 0, g = 0; a < arguments.size(); ++a) {
    if (!isFloat(forward.getArgumentTypes()[a]))
      continue;
    const Tensor &gradient = computed[g++];
    ASSERT_EQ(gradient.shape, arguments[a].shape);
    for (int64_t i = 0; i < gradient.size(); ++i) {
      double &x = arguments[a].values[i], kept = x;
      x = kept + step;
      double above = objective();
      x = kept - step;
      double below = objective();
      x = kept;
      double expected = (above - below) / (2 * step);
      EXPECT_NEAR(gradient.values[i], expected, 1e-7 * (1 + std::abs(expected)))
          << "argument " << a << ", element " << i;
      largest = std::max(largest, std::abs(expected));
    }
  }
  EXPECT_GT(largest, 1e-3) << "the case tests nothing";
}

static std::string unary(std::string op) {
  return "(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n  %y = " + op +
         " %x : tensor<2x3xf32>\n  return %y : tensor<2x3xf32>\n}";
}

static std::string binary(std::string op) {
  return "(%x: tensor<2x3xf32>, %z: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
         "  %y = " +
         op + " %x, %z : tensor<2x3xf32>\n  return %y : tensor<2x3xf32>\n}";
}

static const OpCase arithCases[] = {
    {"addf", binary("arith.addf")},
    {"subf", binary("arith.subf")},
    {"mulf", binary("arith.mulf")},
    {"divf", binary("arith.divf"), 0.5, 2},
    {"negf", unary("arith.negf")},
    {"maximumf", binary("arith.maximumf")},
    {"maxnumf", binary("arith.maxnumf")},
    {"minimumf", binary("arith.minimumf")},
    {"minnumf", binary("arith.minnumf")},
    {"square", R"((%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = arith.mulf %x, %x : tensor<4xf32>
      return %y : tensor<4xf32>
    })"},
    {"casts", R"((%x: tensor<4xf32>) -> tensor<4xf32> {
      %n = arith.truncf %x : tensor<4xf32> to tensor<4xbf16>
      %m = arith.mulf %n, %n : tensor<4xbf16>
      %y = arith.extf %m : tensor<4xbf16> to tensor<4xf32>
      return %y : tensor<4xf32>
    })"},
    {"select", R"((%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
      %less = arith.cmpf olt, %x, %z : tensor<4xf32>
      %t = arith.mulf %x, %z : tensor<4xf32>
      %y = arith.select %less, %t, %z : tensor<4xi1>, tensor<4xf32>
      return %y : tensor<4xf32>
    })"},
};

static const OpCase mathCases[] = {
    {"exp", unary("math.exp")},
    {"exp2", unary("math.exp2")},
    {"expm1", unary("math.expm1")},
    {"log", unary("math.log"), 0.5, 2},
    {"log2", unary("math.log2"), 0.5, 2},
    {"log10", unary("math.log10"), 0.5, 2},
    {"log1p", unary("math.log1p"), 0.5, 2},
    {"sqrt", unary("math.sqrt"), 0.5, 2},
    {"rsqrt", unary("math.rsqrt"), 0.5, 2},
    {"tanh", unary("math.tanh")},
    {"sin", unary("math.sin")},
    {"cos", unary("math.cos")},
    {"atan", unary("math.atan")},
    {"erf", unary("math.erf")},
    {"absf", unary("math.absf")},
    {"powf", binary("math.powf"), 0.5, 2},
    {"fma", R"((%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>)
        -> tensor<4xf32> {
      %r = math.fma %x, %y, %z : tensor<4xf32>
      return %r : tensor<4xf32>
    })"},
};

static const OpCase tensorCases[] = {
    {"expand_shape", R"((%x: tensor<6xf32>) -> tensor<2x3xf32> {
      %y = tensor.expand_shape %x [[0, 1]] output_shape [2, 3]
         : tensor<6xf32> into tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    })"},
    {"collapse_shape", R"((%x: tensor<2x3xf32>) -> tensor<6xf32> {
      %y = tensor.collapse_shape %x [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
      return %y : tensor<6xf32>
    })"},
    {"extract_slice", R"((%x: tensor<4x5xf32>) -> tensor<2x2xf32> {
      %y = tensor.extract_slice %x[1, 0] [2, 2] [1, 2]
         : tensor<4x5xf32> to tensor<2x2xf32>
      return %y : tensor<2x2xf32>
    })"},
    {"extract_slice_of_lower_rank", R"((%x: tensor<4x5xf32>) -> tensor<5xf32> {
      %y = tensor.extract_slice %x[2, 0] [1, 5] [1, 1]
         : tensor<4x5xf32> to tensor<5xf32>
      return %y : tensor<5xf32>
    })"},
    {"insert_slice", R"((%x: tensor<2x2xf32>, %z: tensor<4x5xf32>)
        -> tensor<4x5xf32> {
      %y = tensor.insert_slice %x into %z[1, 0] [2, 2] [1, 2]
         : tensor<2x2xf32> into tensor<4x5xf32>
      return %y : tensor<4x5xf32>
    })"},
    {"pad", R"((%x: tensor<2x3xf32>) -> tensor<4x4xf32> {
      %c = arith.constant 0.5 : f32
      %y = tensor.pad %x low[1, 0] high[1, 1] {
        ^bb0(%i: index, %j: index):
          tensor.yield %c : f32
      } : tensor<2x3xf32> to tensor<4x4xf32>
      return %y : tensor<4x4xf32>
    })"},
    {"concat",
     R"((%x: tensor<2x3xf32>, %z: tensor<2x2xf32>) -> tensor<2x5xf32> {
      %y = tensor.concat dim(1) %x, %z
         : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32>
      return %y : tensor<2x5xf32>
    })"},
    {"splat", R"((%x: f32) -> tensor<2x3xf32> {
      %y = tensor.splat %x : tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    })"},
    {"transpose", R"((%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
      %e = tensor.empty() : tensor<4x2x3xf32>
      %y = linalg.transpose ins(%x : tensor<2x3x4xf32>)
           outs(%e : tensor<4x2x3xf32>) permutation = [2, 0, 1]
      return %y : tensor<4x2x3xf32>
    })"},
    {"fill", R"((%x: f32) -> tensor<2x3xf32> {
      %e = tensor.empty() : tensor<2x3xf32>
      %y = linalg.fill ins(%x : f32) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    })"},
};

static const OpCase gatherCases[] = {
    {"rows", R"((%x: tensor<4x3xf32>, %i: tensor<2x5x1xi32>)
        -> tensor<2x5x3xf32> {
      %y = tensor.gather %x[%i] gather_dims([0])
         : (tensor<4x3xf32>, tensor<2x5x1xi32>) -> tensor<2x5x3xf32>
      return %y : tensor<2x5x3xf32>
    })"},
    {"kept_dimensions", R"((%x: tensor<4x3xf32>, %i: tensor<5x1xi32>)
        -> tensor<5x4x1xf32> {
      %y = tensor.gather %x[%i] gather_dims([1])
         : (tensor<4x3xf32>, tensor<5x1xi32>) -> tensor<5x4x1xf32>
      return %y : tensor<5x4x1xf32>
    })"},
    {"last_and_first", R"((%x: tensor<3x2x4xf32>, %i: tensor<5x2xi64>)
        -> tensor<5x2xf32> {
      %y = tensor.gather %x[%i] gather_dims([0, 2])
         : (tensor<3x2x4xf32>, tensor<5x2xi64>) -> tensor<5x2xf32>
      return %y : tensor<5x2xf32>
    })"},
    {"points", R"((%x: tensor<3x4xf32>, %i: tensor<5x2xi32>)
        -> tensor<5xf32> {
      %y = tensor.gather %x[%i] gather_dims([0, 1])
         : (tensor<3x4xf32>, tensor<5x2xi32>) -> tensor<5xf32>
      return %y : tensor<5xf32>
    })"},
    {"one_row", R"((%x: tensor<3x4xf32>, %i: tensor<1xi32>)
        -> tensor<4xf32> {
      %y = tensor.gather %x[%i] gather_dims([0])
         : (tensor<3x4xf32>, tensor<1xi32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    })"},
};

static const OpCase linalgCases[] = {
    // y[i, j] = tanh(x[j, i]) * z[j] - z[j]: transposed and repeated inputs.
    {"generic_elementwise", R"((%x: tensor<3x2xf32>, %z: tensor<3xf32>)
        -> tensor<2x3xf32> {
      %e = tensor.empty() : tensor<2x3xf32>
      %y = linalg.generic {
        indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (j)>,
                         affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]}
        ins(%x, %z : tensor<3x2xf32>, tensor<3xf32>)
        outs(%e : tensor<2x3xf32>) {
        ^bb0(%a: f32, %b: f32, %o: f32):
          %t = math.tanh %a : f32
          %m = arith.mulf %t, %b : f32
          %r = arith.subf %m, %b : f32
          linalg.yield %r : f32
      } -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    })"},
    // The first result sums onto another tensor; the second is elementwise.
    {"generic_reduction", R"((%x: tensor<2x3xf32>, %w: tensor<2x3xf32>,
        %s: tensor<2xf32>) -> (tensor<2xf32>, tensor<2x3xf32>) {
      %e = tensor.empty() : tensor<2x3xf32>
      %y:2 = linalg.generic {
        indexing_maps = [affine_map<(i, j) -> (i, j)>,
                         affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                         affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "reduction"]}
        ins(%x, %w : tensor<2x3xf32>, tensor<2x3xf32>)
        outs(%s, %e : tensor<2xf32>, tensor<2x3xf32>) {
        ^bb0(%a: f32, %b: f32, %o: f32, %p: f32):
          %m = arith.mulf %a, %b : f32
          %q = math.exp %m : f32
          %r = arith.addf %o, %q : f32
          linalg.yield %r, %m : f32, f32
      } -> (tensor<2xf32>, tensor<2x3xf32>)
      return %y#0, %y#1 : tensor<2xf32>, tensor<2x3xf32>
    })"},
};

static const OpCase namedCases[] = {
    {"matmul", R"((%x: tensor<2x3xf32>, %w: tensor<3x4xf32>,
        %s: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %y = linalg.matmul ins(%x, %w : tensor<2x3xf32>, tensor<3x4xf32>)
           outs(%s : tensor<2x4xf32>) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    })"},
    {"matmul_transpose_b", R"((%x: tensor<2x3xf32>, %w: tensor<4x3xf32>,
        %s: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %y = linalg.matmul_transpose_b
           ins(%x, %w : tensor<2x3xf32>, tensor<4x3xf32>)
           outs(%s : tensor<2x4xf32>) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    })"},
    {"batch_matmul", R"((%x: tensor<2x3x4xf32>, %w: tensor<2x4x2xf32>)
        -> tensor<2x3x2xf32> {
      %zero = arith.constant dense<0.0> : tensor<2x3x2xf32>
      %y = linalg.batch_matmul
           ins(%x, %w : tensor<2x3x4xf32>, tensor<2x4x2xf32>)
           outs(%zero : tensor<2x3x2xf32>) -> tensor<2x3x2xf32>
      return %y : tensor<2x3x2xf32>
    })"},
    {"matvec", R"((%x: tensor<2x3xf32>, %w: tensor<3xf32>,
        %s: tensor<2xf32>) -> tensor<2xf32> {
      %y = linalg.matvec ins(%x, %w : tensor<2x3xf32>, tensor<3xf32>)
           outs(%s : tensor<2xf32>) -> tensor<2xf32>
      return %y : tensor<2xf32>
    })"},
    {"div", R"((%x: tensor<2x3xf32>, %z: tensor<2x3xf32>)
        -> tensor<2x3xf32> {
      %two = arith.constant dense<2.0> : tensor<2x3xf32>
      %e = tensor.empty() : tensor<2x3xf32>
      %w = linalg.add ins(%z, %two : tensor<2x3xf32>, tensor<2x3xf32>)
           outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
      %y = linalg.div ins(%x, %w : tensor<2x3xf32>, tensor<2x3xf32>)
           outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    })"},
    {"broadcast", R"((%x: tensor<3xf32>) -> tensor<2x3xf32> {
      %e = tensor.empty() : tensor<2x3xf32>
      %y = linalg.broadcast ins(%x : tensor<3xf32>) outs(%e : tensor<2x3xf32>)
           dimensions = [0]
      return %y : tensor<2x3xf32>
    })"},
    {"reduce", R"((%x: tensor<2x3xf32>, %s: tensor<2xf32>) -> tensor<2xf32> {
      %y = linalg.reduce ins(%x : tensor<2x3xf32>) outs(%s : tensor<2xf32>)
           dimensions = [1] (%a: f32, %o: f32) {
             %e = math.exp %a : f32
             %r = arith.addf %o, %e : f32
             linalg.yield %r : f32
           }
      return %y : tensor<2xf32>
    })"},
};

static const OpCase productCases[] = {
    {"contract", R"((%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>)
        -> tensor<2x3x5xf32> {
      %y = heddle.contract [bsh, hf -> bsf] %x, %w
         : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
      return %y : tensor<2x3x5xf32>
    })"},
    {"contract_batched", R"((%x: tensor<2x3x4xf32>, %w: tensor<5x2x4xf32>)
        -> tensor<5x3x2xf32> {
      %y = heddle.contract [bsh, fbh -> fsb] %x, %w
         : (tensor<2x3x4xf32>, tensor<5x2x4xf32>) -> tensor<5x3x2xf32>
      return %y : tensor<5x3x2xf32>
    })"},
    {"contract_wide_result", R"((%x: tensor<2x3xbf16>, %w: tensor<3x4xbf16>)
        -> tensor<2x4xf32> {
      %y = heddle.contract [sh, hf -> sf] %x, %w
         : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    })"},
    {"contract_epilogue", R"((%x: tensor<2x3xf32>, %w: tensor<3x4xf32>,
        %b: tensor<4xf32>, %c: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %y = heddle.contract [sh, hf -> sf] %x, %w bias(%b along [1])
        accumulate(%c) : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<4xf32>,
        tensor<2x4xf32>) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    })"},
    {"contract_accumulate", R"((%x: tensor<2x3xf32>, %w: tensor<3x4xf32>,
        %c: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %y = heddle.contract [sh, hf -> sf] %x, %w accumulate(%c)
        : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<2x4xf32>)
        -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    })"},
    {"attention_causal", R"((%q: tensor<2x4x2x3xf32>, %k: tensor<2x4x2x3xf32>,
        %v: tensor<2x4x2x3xf32>) -> tensor<2x4x2x3xf32> {
      %o, %lse = heddle.attention "a" %q, %k, %v causal scale(0.57)
        : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>
        -> tensor<2x4x2x3xf32>, tensor<2x4x2xf32>
      return %o : tensor<2x4x2x3xf32>
    })"},
    {"attention_grouped", R"((%q: tensor<2x3x2x2x3xf32>,
        %k: tensor<2x4x2x3xf32>, %v: tensor<2x4x2x3xf32>)
        -> tensor<2x3x2x2x3xf32> {
      %o, %lse = heddle.attention "a" %q, %k, %v scale(0.57)
        : tensor<2x3x2x2x3xf32>, tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>
        -> tensor<2x3x2x2x3xf32>, tensor<2x3x2x2xf32>
      return %o : tensor<2x3x2x2x3xf32>
    })"},
    // The same bias for all samples, beside a causal mask.
    {"attention_bias", R"((%q: tensor<2x4x2x3xf32>, %k: tensor<2x4x2x3xf32>,
        %v: tensor<2x4x2x3xf32>, %m: tensor<4x2x4xf32>)
        -> tensor<2x4x2x3xf32> {
      %w = tensor.expand_shape %m [[0, 1], [2], [3]] output_shape [1, 4, 2, 4]
         : tensor<4x2x4xf32> into tensor<1x4x2x4xf32>
      %o, %lse = heddle.attention "a" %q, %k, %v causal scale(0.57)
        mask(%w : tensor<1x4x2x4xf32>)
        : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>
        -> tensor<2x4x2x3xf32>, tensor<2x4x2xf32>
      return %o : tensor<2x4x2x3xf32>
    })"},
    // One number for each key, of grouped heads, within a window.
    {"attention_bias_of_keys", R"((%q: tensor<2x3x2x2x3xf32>,
        %k: tensor<2x4x2x3xf32>, %v: tensor<2x4x2x3xf32>,
        %m: tensor<1x1x1x1x4xf32>) -> tensor<2x3x2x2x3xf32> {
      %o, %lse = heddle.attention "a" %q, %k, %v window(2) scale(0.57)
        mask(%m : tensor<1x1x1x1x4xf32>)
        : tensor<2x3x2x2x3xf32>, tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>
        -> tensor<2x3x2x2x3xf32>, tensor<2x3x2x2xf32>
      return %o : tensor<2x3x2x2x3xf32>
    })"},
    {"attention_dropout", R"((%q: tensor<2x4x2x3xf32>, %k: tensor<2x4x2x3xf32>,
        %v: tensor<2x4x2x3xf32>) -> tensor<2x4x2x3xf32> {
      %n = arith.constant dense<7> : tensor<i64>
      %o, %lse = heddle.attention "a" %q, %k, %v causal scale(0.57)
        dropout(0.3) seed(3) step(%n : tensor<i64>)
        : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>
        -> tensor<2x4x2x3xf32>, tensor<2x4x2xf32>
      return %o : tensor<2x4x2x3xf32>
    })"},
};

INSTANTIATE_TEST_SUITE_P(Arith, VjpTest, ::testing::ValuesIn(arithCases),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Math, VjpTest, ::testing::ValuesIn(mathCases),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Tensor, VjpTest, ::testing::ValuesIn(tensorCases),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Gather, VjpTest, ::testing::ValuesIn(gatherCases),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Linalg, VjpTest, ::testing::ValuesIn(linalgCases),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Named, VjpTest, ::testing::ValuesIn(namedCases),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Products, VjpTest, ::testing::ValuesIn(productCases),
                         caseName);
