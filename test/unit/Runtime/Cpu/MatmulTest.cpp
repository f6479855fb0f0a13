//===- MatmulTest.cpp - Products against their definition -----------------===//

#include "backends/cpu/CpuDevice.h"
#include "backends/cpu/kernels/Convert.h"
#include "support/Message.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

using namespace heddle::runtime;

namespace {

/// A buffer of elements of any type, read and written as numbers.
struct Tensor {
  Tensor(int64_t count, int32_t type)
      : type(type), bytes(size_t(count) * byteSize(DType(type))) {}
  float get(int64_t i) const {
    float value;
    convertToF32(DType(type), at(bytes.data(), type, i), &value, 1);
    return value;
  }
  std::vector<float> all() const {
    std::vector<float> values(bytes.size() / byteSize(DType(type)));
    convertToF32(DType(type), bytes.data(), values.data(),
                 int64_t(values.size()));
    return values;
  }
  void set(int64_t i, float value) {
    convertFromF32(DType(type), &value, at(bytes.data(), type, i), 1);
  }
  void fill(uint32_t seed) {
    for (size_t i = 0; i < bytes.size() / byteSize(DType(type)); ++i) {
      seed = seed * 1664525 + 1013904223;
      set(int64_t(i), float(int(seed >> 24) - 128) / 128.0f);
    }
  }
  int32_t type;
  std::vector<std::byte> bytes;
};

int64_t extentOf(int64_t rows, int64_t rowStride, int64_t columns,
                 int64_t columnStride) {
  return (rows - 1) * rowStride + (columns - 1) * columnStride + 1;
}

/// Computes the product by its definition, in double precision.
void reference(const heddle_rt_matmul_desc &d, const Tensor &aTensor,
               const Tensor &bTensor, const Tensor &before, const Tensor *bias,
               std::vector<double> &c) {
  std::vector<float> a = aTensor.all(), b = bTensor.all();
  for (size_t i = 0; i < c.size(); ++i)
    c[i] = before.get(int64_t(i));
  std::vector<bool> touched(c.size());
  int64_t total = 1;
  for (int32_t i = 0; i < d.num_loops; ++i)
    total *= d.loops[i].extent;
  for (int64_t iteration = 0; iteration < total; ++iteration) {
    int64_t rest = iteration, ao = 0, bo = 0, co = 0, biasOffset = 0;
    for (int32_t l = d.num_loops; l-- > 0;) {
      int64_t index = rest % d.loops[l].extent;
      rest /= d.loops[l].extent;
      ao += index * d.loops[l].a_stride;
      bo += index * d.loops[l].b_stride;
      co += index * d.loops[l].c_stride;
      biasOffset += index * d.bias_strides[l];
    }
    for (int64_t i = 0; i < d.m; ++i)
      for (int64_t j = 0; j < d.n; ++j) {
        size_t at = size_t(co + i * d.c_row_stride + j);
        if (!touched[at]) {
          touched[at] = true;
          if (!d.accumulate)
            c[at] = 0;
          if (bias)
            c[at] += bias->get(biasOffset + j);
        }
        for (int64_t k = 0; k < d.k; ++k)
          c[at] +=
              double(
                  a[size_t(ao + i * d.a_row_stride + k * d.a_column_stride)]) *
              b[size_t(bo + k * d.b_row_stride + j * d.b_column_stride)];
      }
  }
}

struct Case {
  int64_t m, n, k;
  bool transposeA = false, transposeB = false;
  int32_t aType = HEDDLE_RT_F32, bType = HEDDLE_RT_F32, cType = HEDDLE_RT_F32;
  int32_t biasType = -1;
  bool accumulate = false;
  int64_t batch = 1, sum = 1; ///< extents of a batch loop and of a summed loop
  int64_t slack = 0;          ///< added to every leading dimension
};

heddle_rt_matmul_desc describe(const Case &c) {
  heddle_rt_matmul_desc d;
  std::memset(&d, 0, sizeof d);
  d.m = c.m, d.n = c.n, d.k = c.k;
  d.a_row_stride = c.transposeA ? 1 : c.k + c.slack;
  d.a_column_stride = c.transposeA ? c.m + c.slack : 1;
  d.b_row_stride = c.transposeB ? 1 : c.n + c.slack;
  d.b_column_stride = c.transposeB ? c.k + c.slack : 1;
  d.c_row_stride = c.n + c.slack;
  d.a_type = c.aType, d.b_type = c.bType, d.c_type = c.cType;
  d.bias_type = c.biasType;
  d.accumulate = c.accumulate;
  int64_t aSize = extentOf(c.m, d.a_row_stride, c.k, d.a_column_stride);
  int64_t bSize = extentOf(c.k, d.b_row_stride, c.n, d.b_column_stride);
  int64_t cSize = extentOf(c.m, d.c_row_stride, c.n, 1);
  if (c.batch > 1) {
    d.loops[d.num_loops] = {c.batch, aSize * c.sum, bSize * c.sum, cSize};
    d.bias_strides[d.num_loops++] = c.n;
  }
  if (c.sum > 1)
    d.loops[d.num_loops++] = {c.sum, aSize, bSize, 0};
  return d;
}

void expectNear(const Case &c, const Tensor &got,
                const std::vector<double> &expected) {
  double relative = c.cType == HEDDLE_RT_BF16  ? 0x1p-8
                    : c.cType == HEDDLE_RT_F16 ? 0x1p-11
                                               : 0;
  for (int64_t i = 0; i < int64_t(expected.size()); ++i) {
    double tolerance = relative * std::fabs(expected[size_t(i)]) +
                       1e-6 * std::sqrt(double(c.k * c.sum)) + 1e-5;
    ASSERT_NEAR(got.get(i), expected[size_t(i)], tolerance) << "element " << i;
  }
}

void check(const Case &c, int cores = 2) {
  SCOPED_TRACE(concat("m ", c.m, " n ", c.n, " k ", c.k, " transposed ",
                      c.transposeA, c.transposeB, " types ", c.aType, c.bType,
                      c.cType, " bias ", c.biasType, " accumulate ",
                      c.accumulate, " batch ", c.batch, " sum ", c.sum));
  heddle_rt_matmul_desc d = describe(c);
  int64_t iterations = c.batch * c.sum;
  Tensor a(extentOf(c.m, d.a_row_stride, c.k, d.a_column_stride) * iterations,
           c.aType);
  Tensor b(extentOf(c.k, d.b_row_stride, c.n, d.b_column_stride) * iterations,
           c.bType);
  int64_t cSize = extentOf(c.m, d.c_row_stride, c.n, 1) * c.batch;
  Tensor before(cSize, c.cType);
  Tensor bias(c.n * c.batch, c.biasType < 0 ? HEDDLE_RT_F32 : c.biasType);
  a.fill(1), b.fill(2), before.fill(3), bias.fill(4);
  std::vector<double> expected(static_cast<size_t>(cSize));
  reference(d, a, b, before, c.biasType < 0 ? nullptr : &bias, expected);
  Tensor got = before;
  auto multiply = [&](heddle_rt_device &device) {
    got = before;
    ASSERT_EQ(heddle_rt_matmul(&device, 0, &d, a.bytes.data(), b.bytes.data(),
                               got.bytes.data(),
                               c.biasType < 0 ? nullptr : bias.bytes.data()),
              0);
    ASSERT_EQ(heddle_rt_synchronize(&device), 0) << device.error().message();
  };
  for (const char *packing : {"plain", "packed"}) {
    setenv("HEDDLE_RT_MATMUL", packing, 1);
    CpuDevice device(0, cores, false);
    unsetenv("HEDDLE_RT_MATMUL");
    multiply(device);
    std::vector<std::byte> first = got.bytes;
    multiply(device); // runs the prepared product again
    ASSERT_EQ(first, got.bytes);
    expectNear(c, got, expected);
  }
}

TEST(Matmul, AllLayoutsAndOddSizes) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                         {1, 37, 5},
                         {37, 1, 5},
                         {5, 7, 1},
                         {33, 65, 17},
                         {128, 96, 64}})
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true})
        for (int64_t slack : {0, 3}) {
          Case c{m, n, k, transposeA, transposeB};
          c.slack = slack;
          check(c);
        }
}

TEST(Matmul, BiasAccumulateLoops) {
  for (int32_t bias : {-1, int32_t(HEDDLE_RT_F32), int32_t(HEDDLE_RT_BF16)})
    for (bool accumulate : {false, true})
      for (int64_t batch : {1, 3})
        for (int64_t sum : {1, 4}) {
          Case c{19, 35, 23};
          c.biasType = bias, c.accumulate = accumulate;
          c.batch = batch, c.sum = sum;
          check(c);
          c.transposeA = true, c.slack = 2;
          check(c);
        }
}

TEST(Matmul, Types) {
  constexpr int32_t f32 = HEDDLE_RT_F32, bf16 = HEDDLE_RT_BF16,
                    f16 = HEDDLE_RT_F16;
  for (auto [a, b, cType] : {std::array<int32_t, 3>{bf16, bf16, f32},
                             {bf16, bf16, bf16},
                             {f32, f32, bf16},
                             {bf16, f32, f32},
                             {f16, f16, f32},
                             {f16, f16, f16},
                             {f32, bf16, bf16}})
    for (bool accumulate : {false, true})
      for (bool transpose : {false, true})
        for (int64_t sum : {1, 3}) {
          Case c{21, 34, 46, transpose, !transpose, a, b, cType};
          c.biasType = accumulate ? f32 : bf16;
          c.accumulate = accumulate, c.sum = sum;
          check(c);
        }
}

TEST(Matmul, SeveralTilesInEveryDirection) {
  Case c{550, 410, 1700};
  c.biasType = HEDDLE_RT_F32, c.accumulate = true;
  check(c);
  check({130, 401, 1601, true, true, HEDDLE_RT_BF16, HEDDLE_RT_BF16,
         HEDDLE_RT_BF16});
}

// Without AVX-512, A's columns and B's rows are copied where the tile cuts
// them.
TEST(Matmul, TilesOfLinesAcrossTheSum) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true}) {
      Case c{530, 450, 150, transposeA, transposeB};
      c.accumulate = transposeA, c.sum = 2, c.slack = 7;
      check(c);
    }
}

TEST(Matmul, SameBitsOnAnyNumberOfCores) {
  Case c{300, 500, 1700};
  heddle_rt_matmul_desc d = describe(c);
  Tensor a(c.m * c.k, c.aType), b(c.k * c.n, c.bType);
  a.fill(1), b.fill(2);
  std::vector<std::byte> first;
  for (int cores : {1, 2, 3, 7}) {
    CpuDevice device(0, cores, false);
    Tensor out(c.m * c.n, c.cType);
    ASSERT_EQ(heddle_rt_matmul(&device, 0, &d, a.bytes.data(), b.bytes.data(),
                               out.bytes.data(), nullptr),
              0);
    ASSERT_EQ(heddle_rt_synchronize(&device), 0);
    if (first.empty())
      first = out.bytes;
    EXPECT_EQ(first, out.bytes) << cores << " cores";
  }
}

TEST(Matmul, DescriptorAtTheAddressOfAnother) {
  CpuDevice device(0, 1, false);
  heddle_rt_matmul_desc d = describe({2, 2, 2});
  const float a[] = {1, 2, 3, 4}, b[] = {10, 100, 1000, 10000};
  float out[4];
  ASSERT_EQ(heddle_rt_matmul(&device, 0, &d, a, b, out, nullptr), 0);
  ASSERT_EQ(heddle_rt_synchronize(&device), 0);
  EXPECT_EQ(out[0], 2010);
  d = describe({2, 2, 2, true});
  ASSERT_EQ(heddle_rt_matmul(&device, 0, &d, a, b, out, nullptr), 0);
  ASSERT_EQ(heddle_rt_synchronize(&device), 0);
  EXPECT_EQ(out[0], 3010);
}

TEST(Matmul, EpiloguesAreForGpus) {
  auto messageOf = [](int32_t epilogue) {
    CpuDevice device(0, 1, false);
    heddle_rt_matmul_desc d = describe({2, 3, 4});
    float x[64] = {};
    EXPECT_NE(
        heddle_rt_fused_matmul(&device, 0, &d, epilogue, x, x, x, nullptr, x),
        0);
    return std::string(device.error().message());
  };
  EXPECT_EQ(messageOf(HEDDLE_RT_EPILOGUE_GELU),
            "matmul: expected a GPU, whose library has epilogues of products");
  EXPECT_EQ(messageOf(17), "matmul: epilogue 17 is unknown");
  EXPECT_EQ(messageOf(-1), "matmul: epilogue -1 is unknown");
}

TEST(Matmul, Errors) {
  auto messageOf = [](const heddle_rt_matmul_desc &d) {
    CpuDevice device(0, 1, false);
    float x[64] = {};
    EXPECT_EQ(heddle_rt_matmul(&device, 0, &d, x, x, x, nullptr), 0);
    EXPECT_NE(heddle_rt_synchronize(&device), 0);
    EXPECT_NE(heddle_rt_matmul(&device, 0, &d, x, x, x, nullptr), 0);
    return std::string(device.error().message());
  };
  heddle_rt_matmul_desc d = describe({2, 3, 4});
  d.k = 0;
  EXPECT_EQ(messageOf(d),
            "matmul: expected m, n and k of at least 1, got 2, 3, 0");
  d = describe({2, 3, 4});
  d.b_column_stride = 2;
  EXPECT_EQ(messageOf(d), "matmul: expected operand B of 4 x 3 to have a dense "
                          "dimension, got strides 3, 2");
  d = describe({2, 3, 4});
  d.a_type = HEDDLE_RT_I32;
  EXPECT_EQ(messageOf(d),
            "matmul: expected operands of type f32, bf16 or f16, got i32");
}

} // namespace
