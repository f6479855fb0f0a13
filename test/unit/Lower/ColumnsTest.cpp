//===- ColumnsTest.cpp - Kernels at awkward numbers of columns ------------===//
//
// Rows of 1, 31, 33, 1000 and 4097 elements: one element, around a warp,
// several warps, and one more than a power of two. Each kernel form occurs:
// elements, sums of rows, sums of columns, and rows with values that pass
// between loops. The first tests compare with formulas. The others run what
// else models have on a GPU, and compare with the kernels of this CPU.
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"
#include <cstdlib>

using namespace heddle::test;

namespace {

constexpr int kFewRows = 5;

/// Replaces C by the number of columns.
std::string forColumns(std::string text, int columns) {
  for (size_t at; (at = text.find('C')) != std::string::npos;)
    text.replace(at, 1, std::to_string(columns));
  return text;
}

class Columns : public ::testing::TestWithParam<int> {};

TEST_P(Columns, Elements) {
  int columns = GetParam();
  auto runner = compile(forColumns(R"(
func.func @f(%x: tensor<5xCxf32>, %y: tensor<5xCxf32>) -> (tensor<5xCxf32>, tensor<5xCxbf16>) {
  %p = arith.mulf %x, %y : tensor<5xCxf32>
  %e = math.exp %x : tensor<5xCxf32>
  %s = arith.addf %p, %e : tensor<5xCxf32>
  %h = arith.truncf %s : tensor<5xCxf32> to tensor<5xCxbf16>
  return %s, %h : tensor<5xCxf32>, tensor<5xCxbf16>
})",
                                   columns));
  ASSERT_TRUE(runner);
  Floats x = draw(kFewRows * columns, 1), y = draw(kFewRows * columns, 2),
         s(x.size());
  Halves h(x.size());
  run(*runner, "f", pointers(x, y), pointers(s, h));
  std::vector<double> expected;
  for (size_t i = 0; i < x.size(); ++i)
    expected.push_back(double(x[i]) * y[i] + std::exp(double(x[i])));
  expectNear(s, expected, 1e-6, "f32");
  expectNear(fromBF16(h), expected, 8e-3, "bf16");
}

TEST_P(Columns, Sums) {
  int columns = GetParam();
  auto runner = compile(forColumns(R"(
func.func @f(%x: tensor<5xCxf32>) -> (tensor<5xf32>, tensor<Cxf32>, tensor<5xf32>) {
  %r = heddle.reduce sum %x over [1] : tensor<5xCxf32> -> tensor<5xf32>
  %c = heddle.reduce sum %x over [0] : tensor<5xCxf32> -> tensor<Cxf32>
  %m = heddle.reduce max %x over [1] : tensor<5xCxf32> -> tensor<5xf32>
  return %r, %c, %m : tensor<5xf32>, tensor<Cxf32>, tensor<5xf32>
})",
                                   columns));
  ASSERT_TRUE(runner);
  Floats x = draw(kFewRows * columns, 1), r(kFewRows), c(columns), m(kFewRows);
  run(*runner, "f", pointers(x), pointers(r, c, m));
  std::vector<double> rows(kFewRows), sums(columns), most(kFewRows, -1e30);
  for (int i = 0; i < kFewRows; ++i)
    for (int j = 0; j < columns; ++j) {
      double value = x[i * columns + j];
      rows[i] += value;
      sums[j] += value;
      most[i] = std::max(most[i], value);
    }
  expectNear(r, rows, 2e-5, "rows");
  expectNear(c, sums, 1e-6, "columns");
  expectNear(m, most, 0, "most");
}

TEST_P(Columns, LayerNorm) {
  int columns = GetParam();
  auto runner = compile(forColumns(R"(
func.func @f(%x: tensor<5xCxf32>, %w: tensor<Cxf32>, %b: tensor<Cxf32>, %dy: tensor<5xCxf32>)
    -> (tensor<5xCxf32>, tensor<5xCxf32>, tensor<Cxf32>, tensor<Cxf32>) {
  %y, %mean, %rstd = heddle.layer_norm "n" %x, %w, %b epsilon(1.0e-2)
    : (tensor<5xCxf32>, tensor<Cxf32>, tensor<Cxf32>) -> (tensor<5xCxf32>, tensor<5xf32>, tensor<5xf32>)
  %dx, %dw, %db = heddle.layer_norm_grad "n" %x, %w, %mean, %rstd, %dy
    : (tensor<5xCxf32>, tensor<Cxf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xCxf32>)
    -> (tensor<5xCxf32>, tensor<Cxf32>, tensor<Cxf32>)
  return %y, %dx, %dw, %db : tensor<5xCxf32>, tensor<5xCxf32>, tensor<Cxf32>, tensor<Cxf32>
})",
                                   columns));
  ASSERT_TRUE(runner);
  Floats x = draw(kFewRows * columns, 1), w = draw(columns, 2),
         b = draw(columns, 3), dy = draw(kFewRows * columns, 4), y(x.size()),
         dx(x.size()), dw(columns), db(columns);
  run(*runner, "f", pointers(x, w, b, dy), pointers(y, dx, dw, db));
  std::vector<double> ey, edx, edw(columns), edb(columns);
  for (int i = 0; i < kFewRows; ++i) {
    const float *row = &x[i * columns], *grad = &dy[i * columns];
    double mean = 0, square = 0, sum = 0, dot = 0;
    for (int j = 0; j < columns; ++j)
      mean += row[j] / double(columns);
    for (int j = 0; j < columns; ++j)
      square += (row[j] - mean) * (row[j] - mean);
    double rstd = 1 / std::sqrt(square / columns + 1e-2);
    for (int j = 0; j < columns; ++j) {
      double hat = (row[j] - mean) * rstd;
      ey.push_back(hat * w[j] + b[j]);
      sum += grad[j] * w[j];
      dot += grad[j] * w[j] * hat;
      edw[j] += grad[j] * hat;
      edb[j] += grad[j];
    }
    for (int j = 0; j < columns; ++j) {
      double hat = (row[j] - mean) * rstd;
      edx.push_back(rstd *
                    (grad[j] * w[j] - sum / columns - hat * dot / columns));
    }
  }
  expectNear(y, ey, 2e-5, "y");
  expectNear(dx, edx, 5e-5, "dx");
  expectNear(dw, edw, 5e-5, "dw");
  expectNear(db, edb, 1e-6, "db");
}

TEST_P(Columns, CrossEntropy) {
  int columns = GetParam();
  auto runner = compile(forColumns(R"(
func.func @f(%x: tensor<5xCxf32>, %t: tensor<5xi32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %loss, %lse = heddle.cross_entropy %x, %t : tensor<5xCxf32>, tensor<5xi32> -> tensor<5xf32>, tensor<5xf32>
  return %loss, %lse : tensor<5xf32>, tensor<5xf32>
})",
                                   columns));
  ASSERT_TRUE(runner);
  Floats x = draw(kFewRows * columns, 1), loss(kFewRows), lse(kFewRows);
  std::vector<int32_t> targets;
  for (int i = 0; i < kFewRows; ++i)
    targets.push_back((i * 7919) % columns);
  run(*runner, "f", pointers(x, targets), pointers(loss, lse));
  std::vector<double> eloss, elogsum;
  for (int i = 0; i < kFewRows; ++i) {
    double sum = 0;
    for (int j = 0; j < columns; ++j)
      sum += std::exp(double(x[i * columns + j]));
    elogsum.push_back(std::log(sum));
    eloss.push_back(std::log(sum) - x[i * columns + targets[i]]);
  }
  expectNear(loss, eloss, 1e-5, "loss");
  expectNear(lse, elogsum, 1e-5, "lse");
}

/// The ops that only a GPU test runs. Compares them with this CPU's kernels.
class ColumnsOnGpu : public Columns {
protected:
  void SetUp() override {
    if (!std::getenv("HEDDLE_TEST_GPU_ROWS"))
      GTEST_SKIP() << "kernel_test_gpu_* compare with the kernels of the CPU";
  }

  /// Runs a function, whose results have these numbers of f32, on both.
  void compare(std::string text, std::vector<void *> arguments,
               const std::vector<size_t> &sizes, double tolerance) {
    text = forColumns(text, GetParam());
    auto onGpu = compile(text);
    auto onCpu = heddle::KernelRunner::compile(text);
    ASSERT_TRUE(onGpu);
    ASSERT_TRUE(bool(onCpu)) << llvm::toString(onCpu.takeError());
    std::vector<Floats> results[2];
    for (int target : {0, 1}) {
      std::vector<void *> pointers;
      for (size_t size : sizes)
        results[target].emplace_back(size, kNaN);
      for (Floats &result : results[target])
        pointers.push_back(result.data());
      heddle::test::run(target ? *onGpu : **onCpu, "f", arguments, pointers);
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      expectNear(
          results[1][i],
          std::vector<double>(results[0][i].begin(), results[0][i].end()),
          tolerance, ("result " + std::to_string(i)).c_str());
  }
};

TEST_P(ColumnsOnGpu, RmsNorm) {
  size_t columns = GetParam(), size = kFewRows * columns;
  Floats x = draw(size, 1), w = draw(columns, 2), dy = draw(size, 3);
  compare(R"(
func.func @f(%x: tensor<5xCxf32>, %w: tensor<Cxf32>, %dy: tensor<5xCxf32>)
    -> (tensor<5xCxf32>, tensor<5xCxf32>, tensor<Cxf32>) {
  %y, %rstd = heddle.rms_norm "n" %x, %w epsilon(1.0e-2) : (tensor<5xCxf32>, tensor<Cxf32>) -> (tensor<5xCxf32>, tensor<5xf32>)
  %dx, %dw = heddle.rms_norm_grad "n" %x, %w, %rstd, %dy
    : (tensor<5xCxf32>, tensor<Cxf32>, tensor<5xf32>, tensor<5xCxf32>) -> (tensor<5xCxf32>, tensor<Cxf32>)
  return %y, %dx, %dw : tensor<5xCxf32>, tensor<5xCxf32>, tensor<Cxf32>
})",
          pointers(x, w, dy), {size, size, columns}, 1e-5);
}

TEST_P(ColumnsOnGpu, BiasDropoutResidualNormInBF16) {
  size_t columns = GetParam(), size = kFewRows * columns;
  Halves x = toBF16(draw(size, 1)), r = toBF16(draw(size, 2)),
         c = toBF16(draw(columns, 3));
  Floats w = draw(columns, 4), b = draw(columns, 5);
  std::vector<int64_t> step = {3};
  compare(R"(
func.func @f(%x: tensor<5xCxbf16>, %r: tensor<5xCxbf16>, %c: tensor<Cxbf16>, %w: tensor<Cxf32>, %b: tensor<Cxf32>, %step: tensor<i64>)
    -> (tensor<5xCxf32>, tensor<5xCxf32>, tensor<5xf32>) {
  %cc = heddle.broadcast %c along [1] : tensor<Cxbf16> -> tensor<5xCxbf16>
  %s = arith.addf %x, %cc : tensor<5xCxbf16>
  %d = heddle.dropout "d" %s, %step rate(0.3) seed(7) : tensor<5xCxbf16>, tensor<i64> -> tensor<5xCxbf16>
  %t = arith.addf %d, %r : tensor<5xCxbf16>
  %y, %mean, %rstd = heddle.layer_norm "n" %t, %w, %b epsilon(1.0e-2)
    : (tensor<5xCxbf16>, tensor<Cxf32>, tensor<Cxf32>) -> (tensor<5xCxbf16>, tensor<5xf32>, tensor<5xf32>)
  %tf = arith.extf %t : tensor<5xCxbf16> to tensor<5xCxf32>
  %yf = arith.extf %y : tensor<5xCxbf16> to tensor<5xCxf32>
  return %tf, %yf, %rstd : tensor<5xCxf32>, tensor<5xCxf32>, tensor<5xf32>
})",
          pointers(x, r, c, w, b, step), {size, size, kFewRows}, 1e-2);
}

TEST_P(ColumnsOnGpu, Activations) {
  size_t columns = GetParam(), size = kFewRows * columns;
  Floats x = draw(size, 1), y = draw(size, 2);
  compare(R"(
func.func @f(%x: tensor<5xCxf32>, %y: tensor<5xCxf32>)
    -> (tensor<5xCxf32>, tensor<5xCxf32>, tensor<5xCxf32>, tensor<5xCxf32>, tensor<Cxf32>) {
  %g = heddle.gelu %x approximate(tanh) : tensor<5xCxf32>
  %dg = heddle.gelu_grad %x, %y approximate(tanh) : tensor<5xCxf32>
  %s = heddle.silu %x : tensor<5xCxf32>
  %m = arith.mulf %s, %y : tensor<5xCxf32>
  %ds = heddle.silu_grad %x, %y : tensor<5xCxf32>
  %db = heddle.reduce sum %dg over [0] : tensor<5xCxf32> -> tensor<Cxf32>
  return %g, %dg, %m, %ds, %db : tensor<5xCxf32>, tensor<5xCxf32>, tensor<5xCxf32>, tensor<5xCxf32>, tensor<Cxf32>
})",
          pointers(x, y), {size, size, size, size, columns}, 2e-6);
}

TEST_P(ColumnsOnGpu, Softmax) {
  size_t size = kFewRows * size_t(GetParam());
  Floats x = draw(size, 1, 5);
  compare(R"(
func.func @f(%x: tensor<5xCxf32>) -> tensor<5xCxf32> {
  %e = tensor.empty() : tensor<5xCxf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<5xCxf32>) outs(%e : tensor<5xCxf32>) -> tensor<5xCxf32>
  return %y : tensor<5xCxf32>
})",
          pointers(x), {size}, 1e-6);
}

TEST_P(ColumnsOnGpu, LossAndGradientInBF16) {
  size_t columns = GetParam(), size = kFewRows * columns;
  Halves x = toBF16(draw(size, 1, 5));
  Ints targets;
  for (int i = 0; i < kFewRows; ++i)
    targets.push_back(i == 3 ? -100 : i * 7919 % int(columns));
  Floats scale = draw(kFewRows, 2);
  compare(R"(
func.func @f(%x: tensor<5xCxbf16>, %t: tensor<5xi32>, %g: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xCxf32>) {
  %loss, %lse = heddle.cross_entropy %x, %t : tensor<5xCxbf16>, tensor<5xi32> -> tensor<5xf32>, tensor<5xf32>
  %dx = heddle.cross_entropy_grad %x, %t, %lse, %g
    : tensor<5xCxbf16>, tensor<5xi32>, tensor<5xf32>, tensor<5xf32> -> tensor<5xCxbf16>
  %d = arith.extf %dx : tensor<5xCxbf16> to tensor<5xCxf32>
  return %loss, %lse, %d : tensor<5xf32>, tensor<5xf32>, tensor<5xCxf32>
})",
          pointers(x, targets, scale), {kFewRows, kFewRows, size}, 8e-3);
}

TEST_P(ColumnsOnGpu, EmbeddingsAndPositions) {
  size_t columns = GetParam();
  Floats words = draw(11 * columns, 1), positions = draw(5 * columns, 2),
         angles = draw(5 * columns, 3), x = draw(5 * 2 * columns, 4);
  Ints ids = {0, 10, 3, 11, -1};
  compare(R"(
func.func @f(%w: tensor<11xCxf32>, %p: tensor<5xCxf32>, %ids: tensor<5xi32>, %a: tensor<5xCxf32>, %x: tensor<1x5x1x2xCxf32>)
    -> (tensor<5xCxf32>, tensor<Cx5xf32>, tensor<5xCxf32>) {
  %e = heddle.embedding %w, %ids : tensor<11xCxf32>, tensor<5xi32> -> tensor<5xCxf32>
  %s = arith.addf %e, %p : tensor<5xCxf32>
  %empty = tensor.empty() : tensor<Cx5xf32>
  %t = linalg.transpose ins(%s : tensor<5xCxf32>) outs(%empty : tensor<Cx5xf32>) permutation = [1, 0]
  %y = heddle.reduce max %x over [0, 2, 3] : tensor<1x5x1x2xCxf32> -> tensor<5xCxf32>
  %z = arith.mulf %y, %a : tensor<5xCxf32>
  return %s, %t, %z : tensor<5xCxf32>, tensor<Cx5xf32>, tensor<5xCxf32>
})",
          pointers(words, positions, ids, angles, x),
          {5 * columns, 5 * columns, 5 * columns}, 0);
}

/// A head has an even number of columns, twice as many as the cosines.
TEST_P(ColumnsOnGpu, Rotary) {
  size_t columns = GetParam(), size = 5 * 3 * 2 * columns;
  Floats x = draw(size, 1), cosines = draw(5 * columns, 2),
         sines = draw(5 * columns, 3);
  std::string head = std::to_string(2 * columns);
  std::string type = "tensor<1x5x1x3x" + head + "xf32>";
  compare("func.func @f(%x: " + type +
              ", %c: tensor<5xCxf32>, %s: tensor<5xCxf32>) -> " + type +
              " {\n  %y = heddle.rotary %x, %c, %s : " + type +
              ", tensor<5xCxf32>, tensor<5xCxf32> -> " + type +
              "\n  return %y : " + type + "\n}",
          pointers(x, cosines, sines), {size}, 1e-6);
}

TEST_P(ColumnsOnGpu, UpdateAndNorm) {
  size_t size = kFewRows * size_t(GetParam());
  Floats p = draw(size, 1), g = draw(size, 2), m = draw(size, 3),
         v = draw(size, 4), rate = {1e-3f};
  for (float &value : v)
    value = std::abs(value);
  compare(R"(
func.func @f(%p: tensor<5xCxf32>, %g: tensor<5xCxf32>, %m: tensor<5xCxf32>, %v: tensor<5xCxf32>, %lr: tensor<f32>)
    -> (tensor<5xCxf32>, tensor<5xCxf32>, tensor<f32>) {
  %b1 = arith.constant dense<0.9> : tensor<5xCxf32>
  %m0 = arith.mulf %m, %b1 : tensor<5xCxf32>
  %mn = arith.addf %m0, %g : tensor<5xCxf32>
  %gg = arith.mulf %g, %g : tensor<5xCxf32>
  %v0 = arith.mulf %v, %b1 : tensor<5xCxf32>
  %vn = arith.addf %v0, %gg : tensor<5xCxf32>
  %sq = math.sqrt %vn : tensor<5xCxf32>
  %q = arith.divf %mn, %sq : tensor<5xCxf32>
  %lrs = heddle.broadcast %lr along [] : tensor<f32> -> tensor<5xCxf32>
  %u = arith.mulf %q, %lrs : tensor<5xCxf32>
  %pn = arith.subf %p, %u : tensor<5xCxf32>
  %norm = heddle.reduce sum %gg over [0, 1] : tensor<5xCxf32> -> tensor<f32>
  return %pn, %vn, %norm : tensor<5xCxf32>, tensor<5xCxf32>, tensor<f32>
})",
          pointers(p, g, m, v, rate), {size, size, 1}, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ColumnsOnGpu,
                         ::testing::Values(1, 31, 33, 1000, 4097));
INSTANTIATE_TEST_SUITE_P(Kernels, Columns,
                         ::testing::Values(1, 31, 33, 1000, 4097));

} // namespace
