//===- NormalizationTest.cpp - Kernels of norms ---------------------------===//

#include "Kernels.h"

using namespace heddle::test;

namespace {

constexpr int kRows = 131, kColumns = 37; // no multiples of a vector or a block
constexpr double kEpsilon = 1e-5;

struct Reference {
  std::vector<double> y, mean, rstd, dx, dw, db;
};

/// Computes layer normalization if `centred`, else RMS normalization, and its
/// gradients.
Reference normalize(const Floats &x, const Floats &w, const Floats &b,
                    const Floats &dy, bool centred) {
  Reference r;
  r.dw.assign(kColumns, 0);
  r.db.assign(kColumns, 0);
  for (int i = 0; i < kRows; ++i) {
    const float *row = &x[i * kColumns], *grad = &dy[i * kColumns];
    double mean = 0, square = 0;
    if (centred) {
      for (int j = 0; j < kColumns; ++j)
        mean += row[j];
      mean /= kColumns;
    }
    for (int j = 0; j < kColumns; ++j)
      square += (row[j] - mean) * (row[j] - mean);
    double rstd = 1 / std::sqrt(square / kColumns + kEpsilon);
    r.mean.push_back(mean);
    r.rstd.push_back(rstd);
    double sum = 0, dot = 0;
    for (int j = 0; j < kColumns; ++j) {
      double hat = (row[j] - mean) * rstd;
      r.y.push_back(hat * w[j] + (centred ? b[j] : 0));
      sum += grad[j] * w[j];
      dot += grad[j] * w[j] * hat;
      r.dw[j] += grad[j] * hat;
      r.db[j] += grad[j];
    }
    if (!centred)
      sum = 0;
    for (int j = 0; j < kColumns; ++j) {
      double hat = (row[j] - mean) * rstd;
      r.dx.push_back(rstd *
                     (grad[j] * w[j] - sum / kColumns - hat * dot / kColumns));
    }
  }
  return r;
}

const char *kLayerNorm = R"(
func.func @f(%x: tensor<131x37xf32>, %w: tensor<37xf32>, %b: tensor<37xf32>, %dy: tensor<131x37xf32>)
    -> (tensor<131x37xf32>, tensor<131xf32>, tensor<131xf32>, tensor<131x37xf32>, tensor<37xf32>, tensor<37xf32>) {
  %y, %mean, %rstd = heddle.layer_norm "n" %x, %w, %b epsilon(1.0e-5)
    : (tensor<131x37xf32>, tensor<37xf32>, tensor<37xf32>) -> (tensor<131x37xf32>, tensor<131xf32>, tensor<131xf32>)
  %dx, %dw, %db = heddle.layer_norm_grad "n" %x, %w, %mean, %rstd, %dy
    : (tensor<131x37xf32>, tensor<37xf32>, tensor<131xf32>, tensor<131xf32>, tensor<131x37xf32>)
    -> (tensor<131x37xf32>, tensor<37xf32>, tensor<37xf32>)
  return %y, %mean, %rstd, %dx, %dw, %db : tensor<131x37xf32>, tensor<131xf32>, tensor<131xf32>, tensor<131x37xf32>, tensor<37xf32>, tensor<37xf32>
})";

struct Outputs {
  Floats y = Floats(kRows * kColumns), mean = Floats(kRows),
         rstd = Floats(kRows), dx = Floats(kRows * kColumns),
         dw = Floats(kColumns), db = Floats(kColumns);
};

TEST(Normalization, LayerNorm) {
  // A large mean: the variance must not come from a difference of squares.
  Floats x = draw(kRows * kColumns, 1), w = draw(kColumns, 2),
         b = draw(kColumns, 3), dy = draw(kRows * kColumns, 4);
  for (float &value : x)
    value += 100;
  Reference r = normalize(x, w, b, dy, true);
  Outputs first;
  for (bool fuse : {true, false}) {
    auto runner = compile(kLayerNorm, fuse);
    ASSERT_TRUE(runner);
    for (bool backwards : {false, true}) {
      Outputs o;
      run(*runner, "f", pointers(x, w, b, dy),
          pointers(o.y, o.mean, o.rstd, o.dx, o.dw, o.db), backwards);
      // A mean near 100 has a rounding error of about 1e-5 in f32.
      expectNear(o.y, r.y, 1e-4, "y");
      expectNear(o.mean, r.mean, 1e-6, "mean");
      expectNear(o.rstd, r.rstd, 1e-5, "rstd");
      expectNear(o.dx, r.dx, 1e-4, "dx");
      expectNear(o.dw, r.dw, 5e-4, "dw");
      expectNear(o.db, r.db, 1e-5, "db");
      if (!backwards)
        first = o;
      else
        EXPECT_TRUE(first.dw == o.dw && first.db == o.db && first.dx == o.dx)
            << "the order of blocks changed bits";
    }
  }
}

TEST(Normalization, RmsNorm) {
  auto runner = compile(R"(
func.func @f(%x: tensor<131x37xf32>, %w: tensor<37xf32>, %dy: tensor<131x37xf32>)
    -> (tensor<131x37xf32>, tensor<131xf32>, tensor<131x37xf32>, tensor<37xf32>) {
  %y, %rstd = heddle.rms_norm "n" %x, %w epsilon(1.0e-5) : (tensor<131x37xf32>, tensor<37xf32>) -> (tensor<131x37xf32>, tensor<131xf32>)
  %dx, %dw = heddle.rms_norm_grad "n" %x, %w, %rstd, %dy
    : (tensor<131x37xf32>, tensor<37xf32>, tensor<131xf32>, tensor<131x37xf32>) -> (tensor<131x37xf32>, tensor<37xf32>)
  return %y, %rstd, %dx, %dw : tensor<131x37xf32>, tensor<131xf32>, tensor<131x37xf32>, tensor<37xf32>
})");
  ASSERT_TRUE(runner);
  Floats x = draw(kRows * kColumns, 1), w = draw(kColumns, 2),
         dy = draw(kRows * kColumns, 4);
  Reference r = normalize(x, w, w, dy, false);
  Outputs o;
  run(*runner, "f", pointers(x, w, dy), pointers(o.y, o.rstd, o.dx, o.dw));
  expectNear(o.y, r.y, 1e-6, "y");
  expectNear(o.rstd, r.rstd, 1e-6, "rstd");
  expectNear(o.dx, r.dx, 2e-6, "dx");
  expectNear(o.dw, r.dw, 2e-6, "dw");
}

// A bias and a residual are added in bf16 before the normalization, which sums
// in f32.
TEST(Normalization, AddBiasResidualLayerNormBF16) {
  auto runner = compile(R"(
func.func @f(%x: tensor<1x131x37xbf16>, %r: tensor<1x131x37xbf16>, %c: tensor<37xbf16>, %w: tensor<37xf32>, %b: tensor<37xf32>)
    -> (tensor<1x131x37xbf16>, tensor<1x131x37xbf16>, tensor<1x131xf32>, tensor<1x131xf32>) {
  %cc = heddle.broadcast %c along [2] : tensor<37xbf16> -> tensor<1x131x37xbf16>
  %s = arith.addf %x, %cc : tensor<1x131x37xbf16>
  %t = arith.addf %s, %r : tensor<1x131x37xbf16>
  %y, %mean, %rstd = heddle.layer_norm "n" %t, %w, %b epsilon(1.0e-5)
    : (tensor<1x131x37xbf16>, tensor<37xf32>, tensor<37xf32>) -> (tensor<1x131x37xbf16>, tensor<1x131xf32>, tensor<1x131xf32>)
  return %t, %y, %mean, %rstd : tensor<1x131x37xbf16>, tensor<1x131x37xbf16>, tensor<1x131xf32>, tensor<1x131xf32>
})");
  ASSERT_TRUE(runner);
  // A GPU merges few rows less.
  if (!runner->isGpu()) {
    EXPECT_EQ(runner->countKernels("f"), 1u);
  }
  size_t size = kRows * kColumns;
  Halves x = toBF16(draw(size, 1)), r = toBF16(draw(size, 2)),
         c = toBF16(draw(kColumns, 3)), t(size), y(size);
  Floats w = draw(kColumns, 4), b = draw(kColumns, 5), mean(kRows), rstd(kRows),
         sums;
  for (size_t i = 0; i < size; ++i)
    sums.push_back(fromBF16(x[i]) + fromBF16(c[i % kColumns]) + fromBF16(r[i]));
  run(*runner, "f", pointers(x, r, c, w, b), pointers(t, y, mean, rstd));
  EXPECT_EQ(t, toBF16(sums));
  Reference reference = normalize(fromBF16(t), w, b, sums, true);
  expectNear(fromBF16(y), reference.y, 1.0 / 128, "y");
  expectNear(mean, reference.mean, 2e-3, "mean");
}

TEST(Normalization, NaNStaysInItsRow) {
  auto runner = compile(kLayerNorm);
  ASSERT_TRUE(runner);
  Floats x = draw(kRows * kColumns, 1), w = draw(kColumns, 2),
         b = draw(kColumns, 3), dy = draw(kRows * kColumns, 4);
  x[5 * kColumns + 3] = kNaN;
  Outputs o;
  run(*runner, "f", pointers(x, w, b, dy),
      pointers(o.y, o.mean, o.rstd, o.dx, o.dw, o.db));
  for (int i = 0; i < kRows * kColumns; ++i)
    ASSERT_EQ(std::isnan(o.y[i]), i / kColumns == 5) << i;
}

} // namespace
