//===- ElementwiseTest.cpp - Elementwise kernels --------------------------===//

#include "Kernels.h"

using namespace heddle::test;

namespace {

/// Returns arguments where functions are hard to compute, then a random sample.
Floats hardPoints() {
  Floats x = {0,  -0.0f, 1e-30f, -1e-30f, 1e-40f, 5,    -5,    20,    -20,
              87, -87,   88.5f,  -88.5f,  100,    -100, 1e30f, -1e30f};
  Floats more = draw(1000, 7, 4);
  x.insert(x.end(), more.begin(), more.end());
  return x;
}

std::string unary(const std::string &op, size_t size) {
  std::string tensor = "tensor<" + std::to_string(size) + "xf32>";
  return "func.func @f(%x: " + tensor + ") -> " + tensor + " {\n  %y = " + op +
         " : " + tensor + "\n  return %y : " + tensor + "\n}\n";
}

std::string binary(const std::string &op, size_t size) {
  std::string tensor = "tensor<" + std::to_string(size) + "xf32>";
  return "func.func @f(%x: " + tensor + ", %z: " + tensor + ") -> " + tensor +
         " {\n  %y = " + op + " : " + tensor + "\n  return %y : " + tensor +
         "\n}\n";
}

double normalCdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double geluTanh(double x) {
  double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}
double geluTanhSlope(double x) {
  double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  double slope = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  double t = std::tanh(u), sech2 = 1 - t * t;
  double term = sech2 == 0 ? 0 : x * sech2 * slope;
  return 0.5 * (1 + t) + 0.5 * term;
}

struct Case {
  const char *op;
  double (*reference)(double);
  double tolerance;
};

TEST(Elementwise, Functions) {
  Floats x = hardPoints();
  const Case cases[] = {
      {"heddle.gelu %x approximate(tanh)", geluTanh, 1e-6},
      {"heddle.gelu %x approximate(none)",
       [](double v) { return v * normalCdf(v); }, 2e-6},
      {"heddle.silu %x", [](double v) { return v / (1 + std::exp(-v)); }, 1e-6},
      {"math.exp %x", [](double v) { return std::exp(v); }, 1e-6},
      {"math.tanh %x", [](double v) { return std::tanh(v); }, 1e-6},
      {"math.erf %x", [](double v) { return std::erf(v); }, 1e-6},
      {"math.cos %x", [](double v) { return std::cos(v); }, 1e-6},
      {"math.sin %x", [](double v) { return std::sin(v); }, 1e-6},
  };
  for (const Case &test : cases) {
    auto runner = compile(unary(test.op, x.size()));
    ASSERT_TRUE(runner);
    Floats y(x.size());
    run(*runner, "f", pointers(x), pointers(y));
    std::vector<double> expected;
    for (float value : x) {
      double exact = test.reference(value);
      // A GPU's sine of a large number is NaN.
      if (runner->isGpu() && std::abs(value) >= 0x1p30f &&
          (llvm::StringRef(test.op).contains("sin") ||
           llvm::StringRef(test.op).contains("cos")))
        exact = kNaN;
      expected.push_back(std::abs(exact) > 3.4e38 ? exact * kInf : exact);
    }
    expectNear(y, expected, test.tolerance, test.op);
  }
}

TEST(Elementwise, Gradients) {
  Floats x = hardPoints(), dy = draw(x.size(), 3), dx(x.size());
  const Case cases[] = {
      {"heddle.gelu_grad %x, %z approximate(tanh)", geluTanhSlope, 2e-6},
      {"heddle.gelu_grad %x, %z approximate(none)",
       [](double v) {
         double density = std::exp(-v * v / 2) / std::sqrt(2 * M_PI);
         return normalCdf(v) + (density == 0 ? 0 : v * density);
       },
       2e-6},
      {"heddle.silu_grad %x, %z",
       [](double v) {
         double s = 1 / (1 + std::exp(-v));
         return s == 0 ? 0 : s * (1 + v * (1 - s));
       },
       2e-6},
  };
  for (const Case &test : cases) {
    auto runner = compile(binary(test.op, x.size()));
    ASSERT_TRUE(runner);
    run(*runner, "f", pointers(x, dy), pointers(dx));
    std::vector<double> expected;
    for (size_t i = 0; i < x.size(); ++i) {
      expected.push_back(test.reference(x[i]) * dy[i]);
      // Where x^2 may overflow, the gradient is not compared.
      if (std::abs(x[i]) > 1e15)
        expected[i] = dx[i] = 0;
    }
    expectNear(dx, expected, test.tolerance, test.op);
  }
}

TEST(Elementwise, NaNAndInfinity) {
  Floats x = {kNaN, kInf, -kInf, 1}, y(4);
  auto silu = compile(unary("heddle.silu %x", 4));
  ASSERT_TRUE(silu);
  run(*silu, "f", pointers(x), pointers(y));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], kInf);
  auto exp = compile(unary("math.exp %x", 4));
  ASSERT_TRUE(exp);
  run(*exp, "f", pointers(x), pointers(y));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], kInf);
  EXPECT_EQ(y[2], 0);
}

TEST(Elementwise, RoundsToBF16) {
  // Every upper half of a float, with lower halves around the tie.
  Floats x;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (uint32_t lower :
         {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
  std::string size = std::to_string(x.size());
  auto runner = compile(
      "func.func @f(%x: tensor<" + size + "xf32>) -> tensor<" + size +
      "xbf16> {\n  %y = arith.truncf %x : tensor<" + size + "xf32> to tensor<" +
      size + "xbf16>\n  return %y : tensor<" + size + "xbf16>\n}\n");
  ASSERT_TRUE(runner);
  Halves y(x.size());
  run(*runner, "f", pointers(x), pointers(y));
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(y[i], toBF16(x[i])) << std::hexfloat << x[i];
}

TEST(Elementwise, ArithmeticInBF16AndF16) {
  for (std::string type : {"bf16", "f16"}) {
    std::string tensor = "tensor<77x" + type + ">";
    auto runner =
        compile("func.func @f(%x: " + tensor + ", %z: " + tensor + ") -> " +
                tensor + " {\n  %c = arith.constant dense<1.5> : " + tensor +
                "\n  %p = arith.mulf %x, %z : " + tensor +
                "\n  %q = arith.addf %p, %c : " + tensor +
                "\n  return %q : " + tensor + "\n}\n");
    ASSERT_TRUE(runner);
    Floats x = draw(77, 1), z = draw(77, 2);
    if (type == "bf16") {
      Halves a = toBF16(x), b = toBF16(z), y(77);
      run(*runner, "f", pointers(a, b), pointers(y));
      for (int i = 0; i < 77; ++i)
        ASSERT_EQ(y[i], toBF16(std::fma(fromBF16(a[i]), fromBF16(b[i]), 1.5f)));
    } else {
      std::vector<_Float16> a(x.begin(), x.end()), b(z.begin(), z.end()), y(77);
      run(*runner, "f", pointers(a, b), pointers(y));
      for (int i = 0; i < 77; ++i)
        ASSERT_EQ(float(y[i]),
                  float(_Float16(std::fma(float(a[i]), float(b[i]), 1.5f))));
    }
  }
}

/// Numbers in [1, 2) of random bits, and the bits of their halves.
TEST(Elementwise, BitsOfBF16AndF16) {
  for (std::string type : {"bf16", "f16"}) {
    bool isBF16 = type == "bf16";
    std::string bits = "tensor<77xi16>", numbers = "tensor<77x" + type + ">";
    auto runner =
        compile("func.func @f(%n: " + bits + ") -> (" + numbers + ", " + bits +
                ") {\n" + "  %one = arith.constant dense<" +
                (isBF16 ? "16256" : "15360") + "> : " + bits +
                "\n  %o = arith.ori %n, %one : " + bits +
                "\n  %x = arith.bitcast %o : " + bits + " to " + numbers +
                "\n  %half = arith.constant dense<0.5> : " + numbers +
                "\n  %y = arith.mulf %x, %half : " + numbers +
                "\n  %m = arith.bitcast %y : " + numbers + " to " + bits +
                "\n  return %x, %m : " + numbers + ", " + bits + "\n}\n");
    ASSERT_TRUE(runner);
    // The mantissa has 7 or 10 bits. Half of a number has an exponent less.
    Halves n(77), x(77), m(77);
    uint16_t size = isBF16 ? 0x80 : 0x400, one = isBF16 ? 16256 : 15360;
    for (int i = 0; i < 77; ++i)
      n[i] = 37 * i % size;
    run(*runner, "f", pointers(n), pointers(x, m));
    for (int i = 0; i < 77; ++i) {
      EXPECT_EQ(x[i], one + n[i]);
      EXPECT_EQ(m[i], one + n[i] - size);
    }
  }
}

TEST(Elementwise, BooleansSelectsAndCasts) {
  auto runner = compile(R"(
func.func @f(%x: tensor<5x33xf32>, %n: tensor<5x33xi64>) -> (tensor<5x33xi1>, tensor<5x33xf32>, tensor<5x33xf64>) {
  %zero = arith.constant dense<0.0> : tensor<5x33xf32>
  %m = arith.cmpf ogt, %x, %zero : tensor<5x33xf32>
  %y = arith.select %m, %x, %zero : tensor<5x33xi1>, tensor<5x33xf32>
  %d = arith.sitofp %n : tensor<5x33xi64> to tensor<5x33xf64>
  return %m, %y, %d : tensor<5x33xi1>, tensor<5x33xf32>, tensor<5x33xf64>
}
func.func @g(%m: tensor<165xi1>, %x: tensor<165xf32>, %z: tensor<165xf32>) -> tensor<165xf32> {
  %y = arith.select %m, %x, %z : tensor<165xi1>, tensor<165xf32>
  return %y : tensor<165xf32>
})");
  ASSERT_TRUE(runner);
  Floats x = draw(165, 1), y(165), z = draw(165, 2);
  std::vector<int64_t> n(165);
  std::vector<double> d(165);
  std::vector<uint8_t> m(165, 77);
  for (int i = 0; i < 165; ++i)
    n[i] = (i - 80) * 10000000019ll;
  run(*runner, "f", pointers(x, n), pointers(m, y, d));
  for (int i = 0; i < 165; ++i) {
    ASSERT_EQ(m[i], x[i] > 0);
    ASSERT_EQ(y[i], x[i] > 0 ? x[i] : 0);
    ASSERT_EQ(d[i], double(n[i]));
  }
  run(*runner, "g", pointers(m, x, z), pointers(y));
  for (int i = 0; i < 165; ++i)
    ASSERT_EQ(y[i], m[i] ? x[i] : z[i]);
}

// Copies of a variable are updated by programs that are fused differently.
TEST(Elementwise, FusionChangesNoBits) {
  const char *text = R"(
func.func @f(%x: tensor<165xf32>, %z: tensor<165xf32>) -> (tensor<165xf32>, tensor<165xf32>) {
  %a = arith.constant dense<0.9> : tensor<165xf32>
  %b = arith.constant dense<0.1> : tensor<165xf32>
  %p = arith.mulf %x, %a : tensor<165xf32>
  %q = arith.mulf %z, %b : tensor<165xf32>
  %m = arith.addf %p, %q : tensor<165xf32>
  %c = arith.constant dense<0.7> : tensor<165xf32>
  %d = arith.divf %m, %c : tensor<165xf32>
  %g = heddle.gelu %d approximate(tanh) : tensor<165xf32>
  %s = arith.subf %z, %g : tensor<165xf32>
  return %m, %s : tensor<165xf32>, tensor<165xf32>
}
)";
  Floats x = draw(165, 1), z = draw(165, 2), m[2], s[2];
  for (bool fuse : {true, false}) {
    auto runner = compile(text, fuse);
    ASSERT_TRUE(runner);
    EXPECT_EQ(runner->countKernels("f"), fuse ? 1u : 6u);
    m[fuse].resize(165);
    s[fuse].resize(165);
    run(*runner, "f", pointers(x, z), pointers(m[fuse], s[fuse]));
  }
  EXPECT_EQ(m[0], m[1]);
  EXPECT_EQ(s[0], s[1]);
}

} // namespace
