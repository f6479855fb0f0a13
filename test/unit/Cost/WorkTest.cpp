//===- WorkTest.cpp - FLOPs and bytes of ops ------------------------------===//
//
// Compares FLOPs and bytes of single ops with numbers computed by hand.

#include "heddle/Cost/Work.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/InitAll.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace heddle;

namespace {

struct WorkCase {
  std::string name;
  std::string function; ///< `(arguments) { ops; return }`
  int64_t flops, bytesRead, bytesWritten;
};

void PrintTo(const WorkCase &c, std::ostream *os) { *os << c.name; }

class WorkTest : public ::testing::TestWithParam<WorkCase> {};

} // namespace

TEST_P(WorkTest, IsKnown) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  auto module = parseSourceString<ModuleOp>(
      "func.func @f" + GetParam().function, &context);
  ASSERT_TRUE(module);
  Work work = getTotalWork(module->getBodyRegion());
  EXPECT_EQ(work.flops, GetParam().flops);
  EXPECT_EQ(work.bytesRead, GetParam().bytesRead);
  EXPECT_EQ(work.bytesWritten, GetParam().bytesWritten);
}

static const WorkCase cases[] = {
    {"contract", R"((%x: tensor<2x3x4xbf16>, %w: tensor<4x5xbf16>) {
      %y = heddle.contract [bsh, hf -> bsf] %x, %w
        : (tensor<2x3x4xbf16>, tensor<4x5xbf16>) -> tensor<2x3x5xf32>
      return
    })",
     2 * 2 * 3 * 4 * 5, 2 * (24 + 20), 4 * 30},
    // A batch factor is in both operands but counts once in the FLOPs.
    {"contract_batched", R"((%x: tensor<2x3x4xf32>, %w: tensor<2x4x5xf32>) {
      %y = heddle.contract [bsh, bhf -> bsf] %x, %w
        : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
      return
    })",
     2 * 2 * 3 * 4 * 5, 4 * (24 + 40), 4 * 30},
    // 2 x 1 heads with 3 * 4 / 2 scores each; a score needs two products of
    // length 4.
    {"attention_causal", R"((%q: tensor<2x3x1x4xf32>) {
      %o, %lse = heddle.attention %q, %q, %q causal scale(0.5)
        : tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>
        -> tensor<2x3x1x4xf32>, tensor<2x3x1xf32>
      return
    })",
     2 * 6 * (4 * 4 + 10), 3 * 4 * 24, 4 * (24 + 6)},
    // Only the rows of the table that are looked up are read.
    {"embedding", R"((%t: tensor<1000x4xf32>, %ids: tensor<2x3xi32>) {
      %y = heddle.embedding %t, %ids
        : tensor<1000x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
      return
    })",
     0, 4 * 24 + 4 * 6, 4 * 24},
    {"elementwise", R"((%x: tensor<8xf32>, %y: tensor<8xf32>) {
      %0 = arith.addf %x, %y : tensor<8xf32>
      %1 = math.exp %0 : tensor<8xf32>
      %2 = arith.truncf %1 : tensor<8xf32> to tensor<8xbf16>
      return
    })",
     8 + 80 + 0, 4 * (16 + 8 + 8), 4 * 8 + 4 * 8 + 2 * 8},
    {"moves", R"((%x: tensor<100x8xf32>) {
      %0 = tensor.extract_slice %x[0, 0] [2, 8] [1, 1]
        : tensor<100x8xf32> to tensor<2x8xf32>
      %1 = tensor.collapse_shape %0 [[0, 1]]
        : tensor<2x8xf32> into tensor<16xf32>
      return
    })",
     0, 4 * 16, 4 * 16},
    // The body reads the destination, so its bytes count as read.
    {"generic", R"((%x: tensor<2x3xf32>, %s: tensor<2xf32>) {
      %0 = linalg.generic {
        indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
        iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<2x3xf32>) outs(%s : tensor<2xf32>) {
        ^bb0(%a: f32, %b: f32):
          %m = arith.mulf %a, %a : f32
          %r = arith.addf %m, %b : f32
          linalg.yield %r : f32
      } -> tensor<2xf32>
      return
    })",
     2 * 6, 4 * (6 + 2), 4 * 2},
    // 1 x 2 x 2 x 5 results of 3 x 3 x 4 multiply-adds each; the accumulator is
    // read.
    {"convolution", R"((%x: tensor<1x4x4x4xf32>, %w: tensor<3x3x4x5xf32>,
                        %a: tensor<1x2x2x5xf32>) {
      %0 = linalg.conv_2d_nhwc_hwcf
        ins(%x, %w : tensor<1x4x4x4xf32>, tensor<3x3x4x5xf32>)
        outs(%a : tensor<1x2x2x5xf32>) -> tensor<1x2x2x5xf32>
      return
    })",
     2 * 20 * 36, 4 * (64 + 180 + 20), 4 * 20},
    // The window operand gives only its shape; its bytes are not read.
    {"pooling", R"((%x: tensor<1x4x4x3xf32>, %w: tensor<2x2xf32>,
                    %a: tensor<1x3x3x3xf32>) {
      %0 = linalg.pooling_nhwc_max
        ins(%x, %w : tensor<1x4x4x3xf32>, tensor<2x2xf32>)
        outs(%a : tensor<1x3x3x3xf32>) -> tensor<1x3x3x3xf32>
      return
    })",
     27 * 4, 4 * (48 + 27), 4 * 27},
    {"reduce_and_matvec", R"((%x: tensor<2x3xi32>, %v: tensor<3xi32>,
                              %s: tensor<2xi32>) {
      %0 = linalg.reduce ins(%x : tensor<2x3xi32>) outs(%s : tensor<2xi32>)
        dimensions = [1] (%a: i32, %b: i32) {
          %m = arith.maxsi %a, %b : i32
          linalg.yield %m : i32
        }
      %1 = linalg.matvec ins(%x, %v : tensor<2x3xi32>, tensor<3xi32>)
        outs(%s : tensor<2xi32>) -> tensor<2xi32>
      return
    })",
     6 + 2 * 6, 4 * (6 + 2) + 4 * (6 + 3 + 2), 4 * 2 + 4 * 2},
    {"softmax", R"((%x: tensor<2x3xf32>, %o: tensor<2x3xf32>) {
      %0 = linalg.softmax dimension(1) ins(%x : tensor<2x3xf32>)
        outs(%o : tensor<2x3xf32>) -> tensor<2x3xf32>
      return
    })",
     14 * 6, 4 * 6, 4 * 6},
    // The gather reads two rows of the table. Index arithmetic has no FLOPs.
    {"gather_and_generate", R"((%t: tensor<1000x8xf32>, %i: tensor<2x1xindex>) {
      %0 = tensor.gather %t[%i] gather_dims([0])
        : (tensor<1000x8xf32>, tensor<2x1xindex>) -> tensor<2x1x8xf32>
      %1 = tensor.generate {
      ^bb0(%k: index):
        %c = arith.addi %k, %k : index
        %n = arith.index_cast %c : index to i32
        %f = arith.sitofp %n : i32 to f32
        %e = math.exp %f : f32
        tensor.yield %e : f32
      } : tensor<7xf32>
      return
    })",
     70, 4 * 16 + 8 * 2, 4 * 16 + 4 * 7},
};

INSTANTIATE_TEST_SUITE_P(Ops, WorkTest, ::testing::ValuesIn(cases),
                         [](const auto &info) { return info.param.name; });

TEST(Roofline, RatesAreThoseThatProgramsReach) {
  ClusterDevice device{"GPU", 1 << 30, 1e12, 0, {{"f32", 1e13}}, {0.5, 0.25}};
  MLIRContext context;
  EXPECT_EQ(getProductRate(Float32Type::get(&context), device), 0.5e13);
  EXPECT_EQ(getProductRate(Float16Type::get(&context), device), std::nullopt);
  EXPECT_EQ(getNearProductRate(Float16Type::get(&context), device), 0.5e13);
  device.peak = {{"bf16", 4e13}};
  EXPECT_EQ(getNearProductRate(Float16Type::get(&context), device), 2e13);
  // FLOPs bind, then bytes.
  EXPECT_EQ(getRooflineSeconds({int64_t(1e13), 0, 0}, 0.5e13, device), 2);
  EXPECT_EQ(getRooflineSeconds({0, int64_t(1e12), 0}, 0.5e13, device), 4);
}
