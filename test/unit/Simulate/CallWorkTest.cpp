//===- CallWorkTest.cpp - FLOPs and bytes of calls ------------------------===//
//
// Compares the work of single calls with numbers computed by hand.
//
//===----------------------------------------------------------------------===//

#include "heddle/Simulate/CallWork.h"
#include "Programs.h"

using namespace mlir;
using namespace heddle;

namespace {

/// Returns the work of the only call of a module.
Work getWork(const std::string &text) {
  Programs programs(text);
  CallWork works(*programs.module);
  Work work;
  programs.module->walk(
      [&](rt::DeviceCallOpInterface call) { work = works.getWork(call); });
  return work;
}

void expectWork(const Work &work, int64_t flops, int64_t read,
                int64_t written) {
  EXPECT_EQ(work.flops, flops);
  EXPECT_EQ(work.bytesRead, read);
  EXPECT_EQ(work.bytesWritten, written);
}

TEST(CallWork, ProductsCountEachIterationAndMoveEachElementOnce) {
  // Three products share A; each has its own B and C.
  expectWork(getWork(R"(rt.program @p arena(4096) {
    rt.matmul m(4) n(5) k(6) a(arena[0 : 4x6xf32] strides [6, 1])
      b(arena[512 : 3x6x5xf32] strides [5, 1])
      c(arena[1024 : 3x4x5xf32] stride 5) accumulate
      loops [#rt.loop<3, a = 0, b = 30, c = 20>] serves <activation ["x"]>
  })"),
             2 * 4 * 5 * 6 * 3, 4 * (24 + 90 + 60), 4 * 60);
}

TEST(CallWork, CausalAttentionComputesHalfOfTheScores) {
  // 2 x 1 heads with 3 * 4 / 2 scores each; a score needs two products of
  // length 4 and one exponential.
  expectWork(getWork(R"(rt.program @p arena(4096) {
    rt.attention q(arena[0 : 2x3x1x4xf32]) k(arena[128 : 2x3x1x4xf32])
      v(arena[256 : 2x3x1x4xf32]) causal scale(5.000000e-01)
      -> o(arena[384 : 2x3x1x4xf32]) lse(arena[512 : 2x3x1xf32])
      serves <activation ["x"]>
  })"),
             2 * 6 * (4 * 4 + 10), 3 * 4 * 24, 4 * 24 + 4 * 6);
}

TEST(CallWork, KernelsReadTheElementsThatTheyExtract) {
  // Of a table of 1000 rows, the kernel reads the three that the ids name.
  expectWork(getWork(R"(
  func.func private @look_up(%table: tensor<1000x8xf32>, %ids: tensor<3xi32>)
      -> tensor<3x8xf32> attributes {heddle.kernel} {
    %e = tensor.empty() : tensor<3x8xf32>
    %y = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%ids : tensor<3xi32>) outs(%e : tensor<3x8xf32>) {
    ^bb0(%id: i32, %out: f32):
      %row = arith.index_cast %id : i32 to index
      %column = linalg.index 1 : index
      %x = tensor.extract %table[%row, %column] : tensor<1000x8xf32>
      %sum = arith.addf %x, %x : f32
      linalg.yield %sum : f32
    } -> tensor<3x8xf32>
    return %y : tensor<3x8xf32>
  }
  rt.program @p arena(65536) {
    rt.launch @look_up (arena[0 : 1000x8xf32], arena[32768 : 3xi32])
      -> (arena[33024 : 3x8xf32]) serves <activation ["x"]>
  })"),
             24, 4 * 24 + 4 * 3, 4 * 24);
}

TEST(CallWork, CopiesReadAndWrite) {
  expectWork(getWork(R"(rt.program @p arena(4096) {
    rt.copy arena[0 : 8xf32] -> arena[64 : 8xf32] serves <activation ["x"]>
  })"),
             0, 32, 32);
}

} // namespace
