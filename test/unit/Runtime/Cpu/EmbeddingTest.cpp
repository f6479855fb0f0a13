//===- EmbeddingTest.cpp - Rows of tables and their gradients -------------===//

#include "backends/cpu/CpuDevice.h"
#include "backends/cpu/kernels/Convert.h"
#include "backends/cpu/kernels/Isa.h"
#include "support/Half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace heddle::runtime;

TEST(EmbeddingGrad, SumsRowsOfTheShardInOrder) {
  for (int cores : {1, 3}) {
    CpuDevice device(0, cores, false);
    constexpr int64_t width = 300, count = 9, first = 10, tableRows = 4;
    const int32_t ids[count] = {10, 9, 13, 10, 14, 12, 13, 13, -100};
    std::vector<float> rows(size_t(width * count));
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = float(i % 251) * 0.37f - 40;
    for (bool accumulate : {false, true}) {
      std::vector<float> table(size_t(width * tableRows), 5.0f);
      std::vector<float> expected(table.size(), accumulate ? 5.0f : 0.0f);
      for (int64_t i = 0; i < count; ++i)
        if (ids[i] >= first && ids[i] < first + tableRows)
          for (int64_t j = 0; j < width; ++j)
            expected[size_t((ids[i] - first) * width + j)] +=
                rows[size_t(i * width + j)];
      ASSERT_EQ(heddle_rt_embedding_grad(&device, 0, ids, count, rows.data(),
                                         HEDDLE_RT_F32, width, first, tableRows,
                                         accumulate, table.data()),
                0);
      ASSERT_EQ(heddle_rt_synchronize(&device), 0);
      EXPECT_EQ(table, expected);
    }
  }
}

TEST(EmbeddingGrad, ReadsBf16AndRefusesIntegers) {
  CpuDevice device(0, 1, false);
  const int32_t ids[2] = {0, 0};
  const uint16_t rows[2] = {0x3f80, 0x4000}; // 1, 2
  float table = 7;
  ASSERT_EQ(heddle_rt_embedding_grad(&device, 0, ids, 2, rows, HEDDLE_RT_BF16,
                                     1, 0, 1, 0, &table),
            0);
  ASSERT_EQ(heddle_rt_synchronize(&device), 0);
  EXPECT_EQ(table, 3.0f);
  EXPECT_EQ(heddle_rt_embedding_grad(&device, 0, ids, 2, rows, HEDDLE_RT_I32, 1,
                                     0, 1, 0, &table),
            0);
  EXPECT_NE(heddle_rt_synchronize(&device), 0);
  EXPECT_EQ(device.error().message(),
            "embedding_grad: expected rows of type f32, bf16 or f16, got i32");
}

TEST(RotaryTable, AnglesInDoublePrecision) {
  CpuDevice device(0, 2, false);
  const double frequencies[2] = {1.0, 1e-4};
  constexpr int64_t first = 100000, rows = 130;
  std::vector<float> cosines(rows * 2), sines(rows * 2);
  ASSERT_EQ(heddle_rt_rotary_table(&device, 0, frequencies, 2, first, rows,
                                   cosines.data(), sines.data()),
            0);
  ASSERT_EQ(heddle_rt_synchronize(&device), 0);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t j = 0; j < 2; ++j) {
      double angle = double(first + row) * frequencies[j];
      EXPECT_EQ(cosines[size_t(row * 2 + j)], float(std::cos(angle)));
      EXPECT_EQ(sines[size_t(row * 2 + j)], float(std::sin(angle)));
    }
}

TEST(Copy, StridedBlocks) {
  CpuDevice device(0, 2, false);
  std::vector<char> from(12), to(9, 'x');
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = char('a' + i);
  ASSERT_EQ(heddle_rt_copy(&device, 0, from.data(), 4, to.data(), 3, 3, 2), 0);
  ASSERT_EQ(heddle_rt_synchronize(&device), 0);
  EXPECT_EQ(std::string(to.begin(), to.end()), "abxefxijx");
  ASSERT_EQ(heddle_rt_fill_zero(&device, 0, to.data() + 1, 4), 0);
  ASSERT_EQ(heddle_rt_synchronize(&device), 0);
  EXPECT_EQ(to, (std::vector<char>{'a', 0, 0, 0, 0, 'x', 'i', 'j', 'x'}));
}

TEST(Convert, HalfPrecisionRoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = f16ToF32(uint16_t(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(f16ToF32(f32ToF16(value))));
    else
      ASSERT_EQ(f32ToF16(value), bits);
  }
  EXPECT_EQ(f32ToF16(65519.0f), 0x7bff);
  EXPECT_EQ(f32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(f32ToF16(0x1p-25f), 0); // tie to even
  EXPECT_EQ(f32ToF16(0x1.8p-25f), 1);
  EXPECT_EQ(f32ToF16(1.0f + 0x1p-11f), 0x3c00); // tie to even
}

TEST(Convert, Bf16RoundsToNearestEvenInEveryBuild) {
  for (const char *name : {"baseline", "avx2", "avx512"}) {
    const IsaKernels *kernels = findIsaKernels(name);
    if (!kernels)
      continue;
    const float values[] = {
        1.0f, 1.0f + 0x1p-8f, 1.0f + 0x1.8p-7f, -0.0f, INFINITY, NAN, 3.4e38f};
    const uint16_t expected[] = {0x3f80, 0x3f80, 0x3f82, 0x8000,
                                 0x7f80, 0x7fc0, 0x7f80};
    std::vector<uint16_t> got(7);
    kernels->f32ToBf16(values, got.data(), 7);
    EXPECT_EQ(got, std::vector<uint16_t>(expected, expected + 7)) << name;
    for (size_t i = 0; i < 7; ++i)
      EXPECT_EQ(f32ToBf16(values[i]), expected[i]);
    float sum[3] = {1, -2, 3}, nan[3] = {5, NAN, 2};
    kernels->maxF32(sum, nan, 3);
    EXPECT_EQ(sum[0], 5);
    EXPECT_TRUE(std::isnan(sum[1]));
    EXPECT_EQ(sum[2], 3);
  }
}
