//===- PositionTest.cpp - Kernels that read by position -------------------===//

#include "Kernels.h"
#include "heddle/Lower/StreamId.h"
#include "heddle_rt/philox.h"

using namespace heddle::test;

namespace {

TEST(Position, DropoutDrawsPhiloxOfTheGlobalIndex) {
  auto runner = compile(R"(
func.func @whole(%x: tensor<6x10xf32>, %s: tensor<i64>) -> tensor<6x10xf32> {
  %y = heddle.dropout "h.0.drop" %x, %s rate(0.3) seed(81985529216486895) : tensor<6x10xf32>, tensor<i64> -> tensor<6x10xf32>
  return %y : tensor<6x10xf32>
}
func.func @part(%x: tensor<2x5xf32>, %s: tensor<i64>, %i: index, %j: index) -> tensor<2x5xf32> {
  %y = heddle.dropout "h.0.drop" %x, %s rate(0.3) seed(81985529216486895) offsets(%i, %j) global_shape([6, 10])
    : tensor<2x5xf32>, tensor<i64> -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
})");
  ASSERT_TRUE(runner);
  Floats x = draw(60, 1), y(60), part(10), partY(10);
  std::vector<int64_t> step = {41}, i = {4}, j = {5};
  run(*runner, "whole", pointers(x, step), pointers(y));
  heddle::runtime::Philox4x32 philox(81985529216486895ull);
  int dropped = 0;
  for (uint32_t k = 0; k < 60; ++k) {
    uint32_t word = philox({k, 0, 41, heddle::getStreamId("h.0.drop")})[0];
    bool keep = word >= uint32_t(0.3 * 4294967296.0);
    dropped += !keep;
    ASSERT_FLOAT_EQ(y[k], keep ? x[k] / 0.7f : 0) << k;
  }
  EXPECT_GT(dropped, 5);
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 5; ++b)
      part[a * 5 + b] = x[(4 + a) * 10 + 5 + b];
  run(*runner, "part", pointers(part, step, i, j), pointers(partY));
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 5; ++b)
      ASSERT_EQ(partY[a * 5 + b], y[(4 + a) * 10 + 5 + b]);
}

TEST(Position, Rotary) {
  auto runner = compile(R"(
func.func @f(%x: tensor<2x7x3x2x10xf32>, %c: tensor<7x5xf32>, %s: tensor<7x5xf32>) -> (tensor<2x7x3x2x10xf32>, tensor<2x7x3x2x10xf32>) {
  %y = heddle.rotary %x, %c, %s : tensor<2x7x3x2x10xf32>, tensor<7x5xf32>, tensor<7x5xf32> -> tensor<2x7x3x2x10xf32>
  %z = heddle.rotary %y, %c, %s inverse : tensor<2x7x3x2x10xf32>, tensor<7x5xf32>, tensor<7x5xf32> -> tensor<2x7x3x2x10xf32>
  return %y, %z : tensor<2x7x3x2x10xf32>, tensor<2x7x3x2x10xf32>
})");
  ASSERT_TRUE(runner);
  Floats x = draw(840, 1), angle = draw(35, 2), c, s, y(840), z(840);
  for (float a : angle) {
    c.push_back(std::cos(a));
    s.push_back(std::sin(a));
  }
  run(*runner, "f", pointers(x, c, s), pointers(y, z));
  std::vector<double> expected;
  for (int i = 0; i < 840; ++i) {
    int j = i % 10, p = i / 60 % 7, h = j % 5;
    double mine = x[i], other = x[j < 5 ? i + 5 : i - 5];
    expected.push_back(mine * c[p * 5 + h] +
                       (j < 5 ? -1 : 1) * other * s[p * 5 + h]);
  }
  expectNear(y, expected, 1e-6, "rotated");
  expectNear(z, std::vector<double>(x.begin(), x.end()), 1e-6, "back");
}

TEST(Position, MaskPadding) {
  auto runner = compile(R"(
func.func @f(%x: tensor<3x4x5xf32>, %i: index, %j: index) -> (tensor<3x4x5xf32>, tensor<3x4x5xf32>) {
  %y = heddle.mask_padding %x dims [0, 2] sizes [8, 9] offsets(%i, %j) value(zero) : tensor<3x4x5xf32> -> tensor<3x4x5xf32>
  %z = heddle.mask_padding %x dims [2] sizes [9] offsets(%j) value(lowest) : tensor<3x4x5xf32> -> tensor<3x4x5xf32>
  return %y, %z : tensor<3x4x5xf32>, tensor<3x4x5xf32>
})");
  ASSERT_TRUE(runner);
  Floats x = draw(60, 1), y(60), z(60);
  x[59] = kNaN; // padding may hold anything
  std::vector<int64_t> i = {6}, j = {5};
  run(*runner, "f", pointers(x, i, j), pointers(y, z));
  for (int k = 0; k < 60; ++k) {
    bool inside = k % 5 + 5 < 9;
    ASSERT_EQ(y[k], k / 20 + 6 < 8 && inside ? x[k] : 0) << k;
    ASSERT_EQ(z[k], inside ? x[k] : std::numeric_limits<float>::lowest()) << k;
  }
}

TEST(Position, TransposesSlicesAndConstants) {
  auto runner = compile(R"(
func.func @f(%x: tensor<6x10xf32>) -> (tensor<10x6xf32>, tensor<6x4xf32>, tensor<2x3xf32>, tensor<2x10xf32>) {
  %e = tensor.empty() : tensor<10x6xf32>
  %t = linalg.transpose ins(%x : tensor<6x10xf32>) outs(%e : tensor<10x6xf32>) permutation = [1, 0]
  %s = tensor.extract_slice %x[0, 3] [6, 4] [1, 1] : tensor<6x10xf32> to tensor<6x4xf32>
  %c = arith.constant dense<2.5> : tensor<2x3xf32>
  %r = tensor.extract_slice %x[2, 0] [2, 10] [1, 1] : tensor<6x10xf32> to tensor<2x10xf32>
  %n = arith.negf %r : tensor<2x10xf32>
  return %t, %s, %c, %n : tensor<10x6xf32>, tensor<6x4xf32>, tensor<2x3xf32>, tensor<2x10xf32>
})");
  ASSERT_TRUE(runner);
  Floats x = draw(60, 1), t(60), s(24), c(6), n(20);
  run(*runner, "f", pointers(x), pointers(t, s, c, n));
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 10; ++j)
      ASSERT_EQ(t[j * 6 + i], x[i * 10 + j]);
  for (int k = 0; k < 24; ++k)
    ASSERT_EQ(s[k], x[k / 4 * 10 + 3 + k % 4]);
  EXPECT_EQ(c, Floats(6, 2.5f));
  for (int k = 0; k < 20; ++k)
    ASSERT_EQ(n[k], -x[20 + k]);
}

// A consumer reads a value through two maps: at the iteration's own indices,
// where the value passes in a register, and at others, where it passes through
// memory.
TEST(Position, OneValueThroughTwoMaps) {
  auto runner = compile(R"(
#id = affine_map<(i, j) -> (i, j)>
#reversed = affine_map<(i, j) -> (i, 4 - j)>
#first = affine_map<(i, j) -> (i, 0)>
func.func @transposed(%x: tensor<5x5xf32>, %w: tensor<5x5xf32>) -> tensor<5x5xf32> {
  %e = tensor.empty() : tensor<5x5xf32>
  %y = arith.addf %x, %w : tensor<5x5xf32>
  %t = linalg.transpose ins(%y : tensor<5x5xf32>) outs(%e : tensor<5x5xf32>) permutation = [1, 0]
  %z = arith.subf %y, %t : tensor<5x5xf32>
  return %z : tensor<5x5xf32>
}
func.func @within_rows(%x: tensor<5x5xf32>, %w: tensor<5x5xf32>) -> (tensor<5x5xf32>, tensor<5x5xf32>) {
  %e = tensor.empty() : tensor<5x5xf32>
  %y = arith.addf %x, %w : tensor<5x5xf32>
  %r = linalg.generic {indexing_maps = [#reversed, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y, %y : tensor<5x5xf32>, tensor<5x5xf32>) outs(%e : tensor<5x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %b, %a : f32
    linalg.yield %d : f32
  } -> tensor<5x5xf32>
  %f = linalg.generic {indexing_maps = [#id, #first, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y, %y : tensor<5x5xf32>, tensor<5x5xf32>) outs(%e : tensor<5x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<5x5xf32>
  return %r, %f : tensor<5x5xf32>, tensor<5x5xf32>
})");
  ASSERT_TRUE(runner);
  Floats x = draw(25, 1), w = draw(25, 2), z(25), r(25), f(25);
  run(*runner, "transposed", pointers(x, w), pointers(z));
  run(*runner, "within_rows", pointers(x, w), pointers(r, f));
  auto y = [&](int i, int j) { return x[i * 5 + j] + w[i * 5 + j]; };
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 5; ++j) {
      ASSERT_EQ(z[i * 5 + j], y(i, j) - y(j, i)) << i << ", " << j;
      ASSERT_EQ(r[i * 5 + j], y(i, j) - y(i, 4 - j)) << i << ", " << j;
      ASSERT_EQ(f[i * 5 + j], y(i, j) - y(i, 0)) << i << ", " << j;
    }
}

TEST(Position, AdamWInPlace) {
  auto runner = compile(R"(
func.func @f(%p: tensor<37x29xf32>, %g: tensor<37x29xf32>, %m: tensor<37x29xf32>, %v: tensor<37x29xf32>, %lr: tensor<f32>)
    -> (tensor<37x29xf32>, tensor<37x29xf32>, tensor<37x29xf32>) {
  %b1 = arith.constant dense<0.9> : tensor<37x29xf32>
  %c1 = arith.constant dense<0.1> : tensor<37x29xf32>
  %b2 = arith.constant dense<0.99> : tensor<37x29xf32>
  %c2 = arith.constant dense<0.01> : tensor<37x29xf32>
  %eps = arith.constant dense<1.0e-8> : tensor<37x29xf32>
  %wd = arith.constant dense<0.1> : tensor<37x29xf32>
  %lrs = heddle.broadcast %lr along [] : tensor<f32> -> tensor<37x29xf32>
  %m0 = arith.mulf %m, %b1 : tensor<37x29xf32>
  %m1 = arith.mulf %g, %c1 : tensor<37x29xf32>
  %mn = arith.addf %m0, %m1 : tensor<37x29xf32>
  %gg = arith.mulf %g, %g : tensor<37x29xf32>
  %v0 = arith.mulf %v, %b2 : tensor<37x29xf32>
  %v1 = arith.mulf %gg, %c2 : tensor<37x29xf32>
  %vn = arith.addf %v0, %v1 : tensor<37x29xf32>
  %sq = math.sqrt %vn : tensor<37x29xf32>
  %den = arith.addf %sq, %eps : tensor<37x29xf32>
  %q = arith.divf %mn, %den : tensor<37x29xf32>
  %wp = arith.mulf %p, %wd : tensor<37x29xf32>
  %u = arith.addf %q, %wp : tensor<37x29xf32>
  %ul = arith.mulf %u, %lrs : tensor<37x29xf32>
  %pn = arith.subf %p, %ul : tensor<37x29xf32>
  return %pn, %mn, %vn : tensor<37x29xf32>, tensor<37x29xf32>, tensor<37x29xf32>
})");
  ASSERT_TRUE(runner);
  // A GPU merges few rows less.
  if (!runner->isGpu()) {
    EXPECT_EQ(runner->countKernels("f"), 1u);
  }
  EXPECT_TRUE(runner->canReuse("f", 0, 0));
  EXPECT_TRUE(runner->canReuse("f", 1, 2));
  EXPECT_TRUE(runner->canReuse("f", 2, 3));
  size_t size = 37 * 29;
  Floats p = draw(size, 1), g = draw(size, 2), m = draw(size, 3),
         v = draw(size, 4), lr = {1e-3f};
  std::vector<double> rp, rm, rv;
  for (size_t i = 0; i < size; ++i) {
    v[i] = std::abs(v[i]);
    rm.push_back(0.9 * m[i] + 0.1 * g[i]);
    rv.push_back(0.99 * v[i] + 0.01 * g[i] * g[i]);
    rp.push_back(p[i] -
                 1e-3 * (rm[i] / (std::sqrt(rv[i]) + 1e-8) + 0.1 * p[i]));
  }
  run(*runner, "f", pointers(p, g, m, v, lr), pointers(p, m, v));
  expectNear(p, rp, 1e-6, "parameter");
  expectNear(m, rm, 1e-6, "m");
  expectNear(v, rv, 1e-6, "v");
}

// The first result may overwrite the operand, although the second result is
// computed from the operand later.
TEST(Position, ScalarsInPlace) {
  auto runner = compile(R"(
func.func @f(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %a = math.exp %x : tensor<f32>
  %b = arith.addf %a, %x : tensor<f32>
  return %a, %b : tensor<f32>, tensor<f32>
})");
  ASSERT_TRUE(runner);
  // A GPU merges few rows less.
  if (!runner->isGpu()) {
    EXPECT_EQ(runner->countKernels("f"), 1u);
  }
  ASSERT_TRUE(runner->canReuse("f", 0, 0));
  Floats x = {1}, b(1);
  run(*runner, "f", pointers(x), pointers(x, b));
  EXPECT_NEAR(x[0], std::exp(1.0), 1e-6);
  EXPECT_NEAR(b[0], std::exp(1.0) + 1, 1e-6);
}

} // namespace
