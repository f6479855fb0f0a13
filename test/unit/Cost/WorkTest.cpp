// FLOPs and bytes that are known by hand.

#include "heddle/Cost/Work.h"
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
    // A batch factor is in both operands and runs once.
    {"contract_batched", R"((%x: tensor<2x3x4xf32>, %w: tensor<2x4x5xf32>) {
      %y = heddle.contract [bsh, bhf -> bsf] %x, %w
        : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
      return
    })",
     2 * 2 * 3 * 4 * 5, 4 * (24 + 40), 4 * 30},
    // 2 x 1 rows of heads, 3 * 4 / 2 scores each, two products of length 4.
    {"attention_causal", R"((%q: tensor<2x3x1x4xf32>) {
      %o, %lse = heddle.attention %q, %q, %q causal scale(0.5)
        : tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>
        -> tensor<2x3x1x4xf32>, tensor<2x3x1xf32>
      return
    })",
     2 * 6 * (4 * 4 + 10), 3 * 4 * 24, 4 * (24 + 6)},
    // Only the rows that are looked up.
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
    // The destination is read where the body reads it.
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
};

INSTANTIATE_TEST_SUITE_P(Ops, WorkTest, ::testing::ValuesIn(cases),
                         [](const auto &info) { return info.param.name; });
