//===- ReductionTest.cpp - Kernels of reductions --------------------------===//

#include "Kernels.h"

using namespace heddle::test;

namespace {

TEST(Reduction, OverRowsInBlocks) {
  // 131 * 3 rows: the last block is not full.
  auto runner = compile(R"(
func.func @sum(%x: tensor<131x3x37xf32>) -> tensor<37xf32> {
  %s = heddle.reduce sum %x over [0, 1] : tensor<131x3x37xf32> -> tensor<37xf32>
  return %s : tensor<37xf32>
}
func.func @max(%x: tensor<131x3x37xf32>) -> tensor<37xf32> {
  %s = heddle.reduce max %x over [0, 1] : tensor<131x3x37xf32> -> tensor<37xf32>
  return %s : tensor<37xf32>
}
func.func @bf16(%x: tensor<131x3x37xbf16>) -> (tensor<37xf32>, tensor<37xbf16>) {
  %s = heddle.reduce sum %x over [0, 1] : tensor<131x3x37xbf16> -> tensor<37xf32>
  %t = heddle.reduce sum %x over [0, 1] : tensor<131x3x37xbf16> -> tensor<37xbf16>
  return %s, %t : tensor<37xf32>, tensor<37xbf16>
})");
  ASSERT_TRUE(runner);
  constexpr int kRows = 393, kColumns = 37;
  Floats x = draw(kRows * kColumns, 1), sum(kColumns), max(kColumns);
  x[7 * kColumns + 5] = -kInf;
  x[8 * kColumns + 6] = kNaN;
  x[9 * kColumns + 7] = kInf;
  auto reference = [&](const Floats &values) {
    std::vector<double> sums(kColumns, 0);
    for (int i = 0; i < kRows * kColumns; ++i)
      sums[i % kColumns] += values[i];
    return sums;
  };
  std::vector<double> largest(kColumns, -INFINITY);
  for (int i = 0; i < kRows * kColumns; ++i) {
    double &at = largest[i % kColumns];
    at = std::isnan(x[i]) || std::isnan(at) ? NAN : std::max<double>(at, x[i]);
  }
  for (bool backwards : {false, true}) {
    run(*runner, "sum", pointers(x), pointers(sum), backwards);
    expectNear(sum, reference(x), 2e-6, "sum");
    run(*runner, "max", pointers(x), pointers(max), backwards);
    expectNear(max, largest, 0, "max");
  }
  Halves small = toBF16(x), rounded(kColumns);
  run(*runner, "bf16", pointers(small), pointers(sum, rounded));
  expectNear(sum, reference(fromBF16(small)), 2e-6, "bf16 sum");
  for (int j = 0; j < kColumns; ++j)
    if (!std::isnan(sum[j])) {
      EXPECT_EQ(rounded[j], toBF16(sum[j])) << j;
    }
}

TEST(Reduction, AnyDimensions) {
  auto runner = compile(R"(
func.func @f(%x: tensor<5x7x11x13xf32>) -> (tensor<5x7x11xf32>, tensor<5x11xf32>, tensor<f32>, tensor<7x13xf32>, tensor<7x11x13xf32>, tensor<5x11x13xf32>) {
  %a = heddle.reduce sum %x over [3] : tensor<5x7x11x13xf32> -> tensor<5x7x11xf32>
  %b = heddle.reduce sum %x over [1, 3] : tensor<5x7x11x13xf32> -> tensor<5x11xf32>
  %c = heddle.reduce sum %x over [0, 1, 2, 3] : tensor<5x7x11x13xf32> -> tensor<f32>
  %d = heddle.reduce sum %x over [0, 2] : tensor<5x7x11x13xf32> -> tensor<7x13xf32>
  %e = heddle.reduce sum %x over [0] : tensor<5x7x11x13xf32> -> tensor<7x11x13xf32>
  %g = heddle.reduce sum %x over [1] : tensor<5x7x11x13xf32> -> tensor<5x11x13xf32>
  return %a, %b, %c, %d, %e, %g : tensor<5x7x11xf32>, tensor<5x11xf32>, tensor<f32>, tensor<7x13xf32>, tensor<7x11x13xf32>, tensor<5x11x13xf32>
})");
  ASSERT_TRUE(runner);
  Floats x = draw(5005, 1);
  Floats a(385), b(55), c(1), d(91), e(1001), g(715);
  run(*runner, "f", pointers(x), pointers(a, b, c, d, e, g), true);
  std::vector<double> ra(385), rb(55), rc(1), rd(91), re(1001), rg(715);
  for (int i = 0, at = 0; i < 5; ++i)
    for (int j = 0; j < 7; ++j)
      for (int k = 0; k < 11; ++k)
        for (int l = 0; l < 13; ++l, ++at) {
          ra[(i * 7 + j) * 11 + k] += x[at];
          rb[i * 11 + k] += x[at];
          rc[0] += x[at];
          rd[j * 13 + l] += x[at];
          re[(j * 11 + k) * 13 + l] += x[at];
          rg[(i * 11 + k) * 13 + l] += x[at];
        }
  expectNear(a, ra, 2e-6, "a");
  expectNear(b, rb, 2e-6, "b");
  expectNear(c, rc, 1e-5, "c");
  expectNear(d, rd, 2e-6, "d");
  expectNear(e, re, 2e-6, "e");
  expectNear(g, rg, 2e-6, "g");
}

TEST(Reduction, LargeSumOfSquares) {
  auto runner = compile(R"(
func.func @f(%x: tensor<301x257xf32>, %y: tensor<100003xf32>) -> tensor<f32> {
  %xx = arith.mulf %x, %x : tensor<301x257xf32>
  %a = heddle.reduce sum %xx over [0, 1] : tensor<301x257xf32> -> tensor<f32>
  %yy = arith.mulf %y, %y : tensor<100003xf32>
  %b = heddle.reduce sum %yy over [0] : tensor<100003xf32> -> tensor<f32>
  %s = arith.addf %a, %b : tensor<f32>
  %r = math.sqrt %s : tensor<f32>
  return %r : tensor<f32>
})");
  ASSERT_TRUE(runner);
  Floats x = draw(301 * 257, 1), y = draw(100003, 2), r(1);
  run(*runner, "f", pointers(x, y), pointers(r));
  double sum = 0;
  for (float value : x)
    sum += double(value) * value;
  for (float value : y)
    sum += double(value) * value;
  expectNear(r, {std::sqrt(sum)}, 1e-6, "norm");
}

// The sum reads all elements as one row, and the second nest must not, because
// an element of the vector belongs to six others.
TEST(Reduction, BesideRowsOfAnotherLength) {
  for (int width : {6, 3, 4}) {
    std::string x = "tensor<16x" + std::to_string(width) + "xf32>";
    auto runner = compile(
        "#id = affine_map<(d0, d1) -> (d0, d1)>\n"
        "#none = affine_map<(d0, d1) -> ()>\n"
        "#row = affine_map<(d0, d1) -> (d0)>\n"
        "func.func @f(%x: " +
        x + ", %b: tensor<16xf32>) -> " + x +
        " {\n"
        "  %s = heddle.reduce sum %x over [0, 1] : " +
        x +
        " -> tensor<f32>\n"
        "  %e = tensor.empty() : " +
        x +
        "\n"
        "  %y = linalg.generic {indexing_maps = [#id, #none, #row, #id],"
        "      iterator_types = [\"parallel\", \"parallel\"]}"
        "      ins(%x, %s, %b : " +
        x +
        ", tensor<f32>, tensor<16xf32>)"
        "      outs(%e : " +
        x +
        ") {\n"
        "  ^bb0(%a: f32, %c: f32, %d: f32, %out: f32):\n"
        "    %1 = arith.mulf %a, %c : f32\n"
        "    %2 = arith.addf %1, %d : f32\n"
        "    linalg.yield %2 : f32\n"
        "  } -> " +
        x +
        "\n"
        "  return %y : " +
        x +
        "\n"
        "}\n");
    ASSERT_TRUE(runner);
    Floats values = draw(16 * width, 1), b = draw(16, 2), y(16 * width);
    double sum = 0;
    for (float value : values)
      sum += value;
    run(*runner, "f", pointers(values, b), pointers(y));
    std::vector<double> expected;
    for (int i = 0; i < 16 * width; ++i)
      expected.push_back(values[i] * sum + b[i / width]);
    expectNear(y, expected, 1e-5, x.c_str());
  }
}

TEST(Reduction, Integers) {
  auto runner = compile(R"(
func.func @f(%t: tensor<3x50xi32>) -> (tensor<f32>, tensor<3xi32>) {
  %ignore = arith.constant dense<-100> : tensor<3x50xi32>
  %valid = arith.cmpi ne, %t, %ignore : tensor<3x50xi32>
  %ones = arith.uitofp %valid : tensor<3x50xi1> to tensor<3x50xf32>
  %count = heddle.reduce sum %ones over [0, 1] : tensor<3x50xf32> -> tensor<f32>
  %largest = heddle.reduce max %t over [1] : tensor<3x50xi32> -> tensor<3xi32>
  return %count, %largest : tensor<f32>, tensor<3xi32>
})");
  ASSERT_TRUE(runner);
  Ints t(150, -7), largest(3);
  t[3] = t[60] = t[149] = -100;
  t[70] = 12;
  Floats count(1);
  run(*runner, "f", pointers(t), pointers(count, largest));
  EXPECT_EQ(count[0], 147);
  EXPECT_EQ(largest, (Ints{-7, 12, -7}));
}

} // namespace
