//===- VocabularyTest.cpp - Kernels over a vocabulary ---------------------===//

#include "Kernels.h"

using namespace heddle::test;

namespace {

constexpr int kLossRows = 9, kWords = 1003;

const char *kCrossEntropy = R"(
func.func @f(%x: tensor<3x3x1003xf32>, %t: tensor<3x3xi32>, %g: tensor<f32>)
    -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3x1003xf32>) {
  %loss, %lse = heddle.cross_entropy %x, %t : tensor<3x3x1003xf32>, tensor<3x3xi32> -> tensor<3x3xf32>, tensor<3x3xf32>
  %gs = heddle.broadcast %g along [] : tensor<f32> -> tensor<3x3xf32>
  %dx = heddle.cross_entropy_grad %x, %t, %lse, %gs
    : tensor<3x3x1003xf32>, tensor<3x3xi32>, tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3x1003xf32>
  return %loss, %lse, %dx : tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3x1003xf32>
})";

struct LossReference {
  std::vector<double> loss, lse, grad;
};

LossReference crossEntropy(const Floats &x, const Ints &targets, double scale) {
  LossReference r;
  for (int i = 0; i < kLossRows; ++i) {
    double largest = -INFINITY, sum = 0;
    for (int j = 0; j < kWords; ++j)
      largest = std::max<double>(largest, x[i * kWords + j]);
    for (int j = 0; j < kWords; ++j)
      sum += std::exp(x[i * kWords + j] - largest);
    double lse = largest + std::log(sum);
    bool ignored = targets[i] == -100;
    r.lse.push_back(lse);
    r.loss.push_back(ignored ? 0 : lse - x[i * kWords + targets[i]]);
    for (int j = 0; j < kWords; ++j)
      r.grad.push_back(
          ignored ? 0
                  : (std::exp(x[i * kWords + j] - lse) - (j == targets[i])) *
                        scale);
  }
  return r;
}

TEST(CrossEntropy, ForwardAndGradient) {
  Floats x = draw(kLossRows * kWords, 1, 5);
  for (float &value : x)
    value += 300; // exp would overflow
  for (int j = 0; j < 500; ++j)
    x[2 * kWords + j] = -kInf; // masked words
  Ints targets = {0, 1002, 700, -100, 5, 6, 7, 8, 9};
  Floats scale = {0.125f};
  LossReference r = crossEntropy(x, targets, scale[0]);
  for (bool fuse : {true, false}) {
    auto runner = compile(kCrossEntropy, fuse);
    ASSERT_TRUE(runner);
    if (fuse) {
      // A GPU merges few rows less.
      if (!runner->isGpu()) {
        EXPECT_EQ(runner->countKernels("f"), 1u);
      }
    }
    Floats loss(kLossRows), lse(kLossRows), grad(x.size());
    run(*runner, "f", pointers(x, targets, scale), pointers(loss, lse, grad));
    expectNear(loss, r.loss, 3e-5, "loss"); // the logits are near 300
    expectNear(lse, r.lse, 3e-7, "lse");
    expectNear(grad, r.grad, 1e-5, "gradient");
  }
}

TEST(CrossEntropy, GradientInPlace) {
  auto runner = compile(kCrossEntropy);
  ASSERT_TRUE(runner);
  if (runner->isGpu())
    GTEST_SKIP() << "nine rows make no common kernel on a GPU";
  ASSERT_TRUE(runner->canReuse("f", 2, 0));
  Floats x = draw(kLossRows * kWords, 1, 5), scale = {1};
  Ints targets = {0, 1002, 700, -100, 5, 6, 7, 8, 9};
  Floats loss(kLossRows), lse(kLossRows), grad(x.size());
  run(*runner, "f", pointers(x, targets, scale), pointers(loss, lse, grad));
  Floats inPlace = x;
  run(*runner, "f", pointers(inPlace, targets, scale),
      pointers(loss, lse, inPlace));
  EXPECT_EQ(inPlace, grad);
}

TEST(CrossEntropy, RowsOfInfinityAndNaN) {
  auto runner = compile(kCrossEntropy);
  ASSERT_TRUE(runner);
  Floats x = draw(kLossRows * kWords, 1), scale = {1};
  std::fill(x.begin(), x.begin() + kWords, -kInf);
  x[kWords + 17] = kNaN;
  Ints targets(kLossRows, 3);
  Floats loss(kLossRows), lse(kLossRows), grad(x.size());
  run(*runner, "f", pointers(x, targets, scale), pointers(loss, lse, grad));
  EXPECT_EQ(lse[0], -kInf);
  EXPECT_TRUE(std::isnan(lse[1]));
  EXPECT_TRUE(std::isnan(loss[1]));
  for (int i = 2; i < kLossRows; ++i)
    EXPECT_TRUE(std::isfinite(loss[i])) << i;
}

TEST(Vocabulary, LogSumExpAndPickOfAShard) {
  auto runner = compile(R"(
func.func @f(%x: tensor<9x1003xbf16>, %t: tensor<9xi32>, %o: index) -> (tensor<9xf32>, tensor<9xf32>) {
  %lse = heddle.logsumexp %x : tensor<9x1003xbf16> -> tensor<9xf32>
  %p = heddle.pick %x, %t offset(%o) : tensor<9x1003xbf16>, tensor<9xi32> -> tensor<9xf32>
  return %lse, %p : tensor<9xf32>, tensor<9xf32>
})");
  ASSERT_TRUE(runner);
  Halves x = toBF16(draw(kLossRows * kWords, 1));
  Ints targets = {1003, 2005, 1002, 2006, -100, 0, 1500, 1600, 1700};
  std::vector<int64_t> offset = {1003};
  Floats lse(kLossRows), picked(kLossRows);
  run(*runner, "f", pointers(x, targets, offset), pointers(lse, picked));
  LossReference r = crossEntropy(fromBF16(x), Ints(kLossRows, 0), 1);
  expectNear(lse, r.lse, 1e-6, "lse");
  for (int i = 0; i < kLossRows; ++i) {
    int at = targets[i] - 1003;
    float expected =
        at >= 0 && at < kWords ? fromBF16(x[i * kWords + at]) : 0.0f;
    EXPECT_EQ(picked[i], expected) << i;
  }
}

TEST(Vocabulary, CrossEntropyGradientOfAShard) {
  auto runner = compile(R"(
func.func @f(%x: tensor<9x1003xf32>, %t: tensor<9xi32>, %lse: tensor<9xf32>, %g: tensor<9xf32>, %o: index) -> tensor<9x1003xf32> {
  %d = heddle.cross_entropy_grad %x, %t, %lse, %g offset(%o)
    : tensor<9x1003xf32>, tensor<9xi32>, tensor<9xf32>, tensor<9xf32> -> tensor<9x1003xf32>
  return %d : tensor<9x1003xf32>
})");
  ASSERT_TRUE(runner);
  Floats x = draw(kLossRows * kWords, 1), lse(kLossRows, 8.0f),
         scale = draw(kLossRows, 2), grad(x.size());
  Ints targets = {1003, 2005, 1002, 2006, -100, 0, 1500, 1600, 1700};
  std::vector<int64_t> offset = {1003};
  run(*runner, "f", pointers(x, targets, lse, scale, offset), pointers(grad));
  std::vector<double> expected;
  for (int i = 0; i < kLossRows; ++i)
    for (int j = 0; j < kWords; ++j)
      expected.push_back(
          targets[i] == -100
              ? 0
              : (std::exp(x[i * kWords + j] - 8.0) - (j + 1003 == targets[i])) *
                    scale[i]);
  expectNear(grad, expected, 1e-6, "gradient");
}

TEST(Vocabulary, Embedding) {
  auto runner = compile(R"(
func.func @f(%w: tensor<11x37xf32>, %ids: tensor<2x5xi32>, %o: index) -> (tensor<2x5x37xf32>, tensor<2x5x37xf32>) {
  %a = heddle.embedding %w, %ids : tensor<11x37xf32>, tensor<2x5xi32> -> tensor<2x5x37xf32>
  %b = heddle.embedding %w, %ids offset(%o) : tensor<11x37xf32>, tensor<2x5xi32> -> tensor<2x5x37xf32>
  return %a, %b : tensor<2x5x37xf32>, tensor<2x5x37xf32>
})");
  ASSERT_TRUE(runner);
  Floats w = draw(11 * 37, 1), a(370), b(370);
  Ints ids = {0, 10, 3, 11, -1, 5, 6, 7, 2000000000, 9};
  std::vector<int64_t> offset = {5};
  run(*runner, "f", pointers(w, ids, offset), pointers(a, b));
  for (int i = 0; i < 10; ++i)
    for (int j = 0; j < 37; ++j) {
      auto row = [&](int64_t id) {
        return id >= 0 && id < 11 ? w[id * 37 + j] : 0.0f;
      };
      ASSERT_EQ(a[i * 37 + j], row(ids[i])) << i;
      ASSERT_EQ(b[i * 37 + j], row(int64_t(ids[i]) - 5)) << i;
    }
}

} // namespace
