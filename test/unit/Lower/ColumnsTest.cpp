//===- ColumnsTest.cpp - Kernels at awkward numbers of columns ------------===//
//
// Rows of 1, 31, 33, 1000 and 4097 elements: one element, around a warp,
// several warps, and one more than a power of two. Each kernel form occurs:
// elements, sums of rows, sums of columns, and rows with values that pass
// between loops.
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"

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

INSTANTIATE_TEST_SUITE_P(Kernels, Columns,
                         ::testing::Values(1, 31, 33, 1000, 4097));

} // namespace
