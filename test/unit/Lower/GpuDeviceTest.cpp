//===- GpuDeviceTest.cpp - Calls of a rank on a GPU -----------------------===//

#include "backends/cuda/CudaBackend.h"
#include "backends/cuda/CudaCommunicator.h"
#include "support/Half.h"
#include "test/support/EmulatedCuda/EmulatedCuda.h"
#include "gtest/gtest.h"
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

using namespace heddle;
using namespace heddle::runtime;

namespace {

/// A rank alone on an emulated GPU.
class GpuDeviceTest : public ::testing::Test {
protected:
  using LoadProducts = Expected<cuda::blas::CublasLt> (*)(int);
  void SetUp() override {
    open([](int) -> Expected<cuda::blas::CublasLt> {
      return emulated::getCublasLt();
    });
  }
  void open(LoadProducts loadProducts) {
    auto card = cuda::Card::open({emulated::getDriver(), loadProducts,
                                  [](int) -> Expected<cuda::dnn::Cudnn> {
                                    return emulated::getCudnn();
                                  }});
    ASSERT_TRUE(card.ok()) << card.message();
    device = std::make_unique<cuda::CudaDevice>(
        0, *card, std::make_shared<const std::vector<cuda::LoadedKernel>>(), 1);
    ASSERT_TRUE(device->start(1).ok());
    device->communicators.push_back(std::make_unique<cuda::CudaCommunicator>(
        *device, 0, std::vector<GroupView>{{{0}, 0}},
        std::make_shared<cuda::Meetings>(std::chrono::seconds(20))));
    auto allocated = device->allocate(sizeof(float) * kMost);
    ASSERT_TRUE(allocated.ok());
    result = std::move(*allocated);
    std::iota(std::begin(constants), std::end(constants), 1.0f);
  }
  void TearDown() override {
    result.reset();
    device.reset();
    EXPECT_EQ(emulated::takeFault(), "");
  }

  /// Waits for the device and reads the first numbers of `result`.
  std::vector<float> read(size_t count) {
    std::vector<float> numbers(count);
    Status done = device->synchronize();
    EXPECT_TRUE(done.ok()) << done.message();
    EXPECT_TRUE(
        device
            ->copyToHost(numbers.data(), result->data(), count * sizeof(float))
            .ok());
    return numbers;
  }

  void checkEpilogues();

  static constexpr size_t kMost = 64;
  std::unique_ptr<cuda::CudaDevice> device;
  std::unique_ptr<Region> result;
  /// Constants of the program, which lie in the host's memory.
  float constants[24];
  std::vector<std::unique_ptr<heddle_rt_matmul_desc>> descriptors;
};

TEST_F(GpuDeviceTest, ProductOfConstants) {
  // [2, 3] [3, 2] + [2], for two matrices A one after the other.
  heddle_rt_matmul_desc desc = {};
  desc.m = desc.n = 2;
  desc.k = 3;
  desc.a_row_stride = 3;
  desc.a_column_stride = 1;
  desc.b_row_stride = 2;
  desc.b_column_stride = 1;
  desc.c_row_stride = 2;
  desc.a_type = desc.b_type = desc.c_type = desc.bias_type = HEDDLE_RT_F32;
  desc.num_loops = 1;
  desc.loops[0] = {2, 6, 0, 4};
  const float bias[2] = {100, 200};
  Status issued =
      device->matmul(0, desc, constants, constants + 12, result->data(), bias);
  ASSERT_TRUE(issued.ok()) << issued.message();
  std::vector<float> expected;
  for (int64_t matrix = 0; matrix < 2; ++matrix)
    for (int64_t row = 0; row < 2; ++row)
      for (int64_t column = 0; column < 2; ++column) {
        float sum = bias[column];
        for (int64_t i = 0; i < 3; ++i)
          sum += constants[6 * matrix + 3 * row + i] *
                 constants[12 + 2 * i + column];
        expected.push_back(sum);
      }
  EXPECT_EQ(read(8), expected);
}

/// A library whose heuristics know no product with an epilogue.
Expected<cuda::blas::CublasLt> withoutEpilogues(int) {
  static std::set<cuda::blas::MatmulDesc> fused;
  cuda::blas::CublasLt functions = emulated::getCublasLt();
  functions.descSet = [](cuda::blas::MatmulDesc desc, int attribute,
                         const void *value, size_t bytes) {
    if (attribute == cuda::blas::kEpilogue)
      fused.insert(desc);
    return emulated::getCublasLt().descSet(desc, attribute, value, bytes);
  };
  functions.descDestroy = [](cuda::blas::MatmulDesc desc) {
    fused.erase(desc);
    return emulated::getCublasLt().descDestroy(desc);
  };
  functions.heuristic =
      [](cuda::blas::Handle handle, cuda::blas::MatmulDesc desc,
         cuda::blas::Layout a, cuda::blas::Layout b, cuda::blas::Layout c,
         cuda::blas::Layout d, cuda::blas::Preference preference, int wanted,
         cuda::blas::HeuristicResult *results, int *count) {
        return fused.contains(desc)
                   ? cuda::blas::kNotSupported
                   : emulated::getCublasLt().heuristic(handle, desc, a, b, c, d,
                                                       preference, wanted,
                                                       results, count);
      };
  return functions;
}

/// The epilogues of products, against the same numbers computed here.
TEST_F(GpuDeviceTest, Epilogues) { checkEpilogues(); }

/// The library's kernels compute the epilogues that cuBLASLt lacks.
TEST_F(GpuDeviceTest, EpiloguesApart) {
  TearDown();
  open(&withoutEpilogues);
  checkEpilogues();
}

void GpuDeviceTest::checkEpilogues() {
  // [2, 3] [3, 8], whose rows begin at multiples of 8 elements.
  heddle_rt_matmul_desc desc = {};
  desc.m = 2;
  desc.n = 8;
  desc.k = 3;
  desc.a_row_stride = 3;
  desc.b_row_stride = desc.c_row_stride = 8;
  desc.a_column_stride = desc.b_column_stride = 1;
  desc.a_type = desc.b_type = desc.c_type = HEDDLE_RT_F32;
  desc.bias_type = -1;
  std::vector<float> a(6), b(24), product(16), biased(16), y(16), gradient(16);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = 0.1f * float(i) - 0.2f;
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = 0.3f - 0.05f * float(i);
  const float bias[8] = {1, 2, 3, 4, -1, -2, -3, -4};
  auto gelu = [](double x) {
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  std::vector<float> rowsOfA(2), columnsOfB(8);
  for (size_t row = 0; row < 2; ++row)
    for (size_t column = 0; column < 8; ++column) {
      float sum = 0;
      for (size_t i = 0; i < 3; ++i)
        sum += a[3 * row + i] * b[8 * i + column];
      size_t place = 8 * row + column;
      product[place] = sum;
      biased[place] = sum + bias[column];
      y[place] = float(gelu(biased[place]));
      constexpr double kStep = 1e-4;
      gradient[place] =
          sum *
          float((gelu(biased[place] + kStep) - gelu(biased[place] - kStep)) /
                (2 * kStep));
    }
  for (size_t i = 0; i < 3; ++i) {
    for (size_t row = 0; row < 2; ++row)
      rowsOfA[row] += a[3 * row + i];
    for (size_t column = 0; column < 8; ++column)
      columnsOfB[column] += b[8 * i + column];
  }

  auto *c = reinterpret_cast<float *>(result->data()), *extra = c + 16;
  auto check = [&](heddle_rt_epilogue epilogue, const float *withBias,
                   std::vector<float> expected,
                   const std::vector<float> &expectedExtra) {
    desc.bias_type = withBias ? HEDDLE_RT_F32 : -1;
    // Each descriptor has static lifetime in a program.
    descriptors.push_back(std::make_unique<heddle_rt_matmul_desc>(desc));
    Status issued = device->fusedMatmul(0, *descriptors.back(), epilogue,
                                        a.data(), b.data(), c, withBias, extra);
    ASSERT_TRUE(issued.ok()) << issued.message();
    expected.insert(expected.end(), expectedExtra.begin(), expectedExtra.end());
    std::vector<float> numbers = read(expected.size());
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_NEAR(numbers[i], expected[i], 1e-4) << epilogue << ", " << i;
  };
  check(HEDDLE_RT_EPILOGUE_GELU, bias, y, biased);
  check(HEDDLE_RT_EPILOGUE_GELU_GRAD, nullptr, gradient, biased);
  check(HEDDLE_RT_EPILOGUE_A_SUMS, nullptr, product, rowsOfA);
  check(HEDDLE_RT_EPILOGUE_B_SUMS, nullptr, product, columnsOfB);

  auto errorOf = [&](heddle_rt_epilogue epilogue, heddle_rt_matmul_loop loop,
                     int64_t biasStride) {
    descriptors.push_back(std::make_unique<heddle_rt_matmul_desc>(desc));
    heddle_rt_matmul_desc &several = *descriptors.back();
    several.num_loops = 1;
    several.loops[0] = loop;
    several.bias_strides[0] = biasStride;
    Status issued = device->fusedMatmul(0, several, epilogue, a.data(),
                                        b.data(), c, nullptr, extra);
    return std::string(issued.message());
  };
  const char *own = "expected a product with an epilogue to be one product, or "
                    "several with sums of their own";
  heddle_rt_matmul_loop apart{}, same{};
  apart.extent = same.extent = 2;
  apart.c_stride = 4;
  EXPECT_EQ(errorOf(HEDDLE_RT_EPILOGUE_A_SUMS, apart, 4), own);
  EXPECT_EQ(errorOf(HEDDLE_RT_EPILOGUE_B_SUMS, same, 4), own);
  EXPECT_EQ(errorOf(HEDDLE_RT_EPILOGUE_B_SUMS, apart, 0), own);
}

/// The memory of products is known before a program runs: the workspace, and
/// scratch for the largest sum that is rounded to a narrow type.
TEST_F(GpuDeviceTest, MemoryOfProducts) {
  EXPECT_EQ(totalBytes(device->workspaces()), 0);
  // Two products [2, 3] [3, 8] whose sum is bf16.
  heddle_rt_matmul_desc desc = {};
  desc.m = 2;
  desc.n = 8;
  desc.k = 3;
  desc.a_row_stride = 3;
  desc.b_row_stride = desc.c_row_stride = 8;
  desc.a_column_stride = desc.b_column_stride = 1;
  desc.a_type = desc.b_type = desc.c_type = HEDDLE_RT_BF16;
  desc.bias_type = -1;
  heddle_rt_matmul_desc single = desc;
  single.m = 1000;
  desc.num_loops = 1;
  desc.loops[0].extent = 2;
  const heddle_rt_matmul_desc *const list[] = {&single, &desc, nullptr};
  device->expectProducts(list);
  CodeInfo code;
  code.kernels.resize(2);
  code.kernels[1].isTable = true;
  code.kernels[1].parameters.resize(5);
  device->expectUploads(code, 1000);
  EXPECT_EQ(totalBytes(device->workspaces()),
            (32 << 20) + 2 * 8 * 4 + 1000 + 5 * 8);
  // It takes no more than that, and the constants are small.
  Status issued = device->matmul(0, desc, constants, constants + 12,
                                 result->data(), nullptr);
  ASSERT_TRUE(issued.ok()) << issued.message();
  EXPECT_GT(device->scratchBytes(), size_t(32 << 20) + 2 * 8 * 4);
  EXPECT_LE(double(device->scratchBytes()), totalBytes(device->workspaces()));
}

TEST_F(GpuDeviceTest, EmptyProduct) {
  heddle_rt_matmul_desc desc = {};
  desc.m = desc.n = 2;
  desc.a_row_stride = desc.b_row_stride = desc.c_row_stride = 2;
  desc.a_column_stride = desc.b_column_stride = 1;
  desc.bias_type = -1;
  auto issue = [&] {
    Status issued = device->matmul(0, desc, constants, constants + 12,
                                   result->data(), nullptr);
    return std::string(issued.message());
  };
  EXPECT_EQ(issue(), "expected m, n and k of at least 1, got 2, 2, 0");
  desc.k = 2;
  desc.num_loops = 1;
  desc.loops[0] = {0, 4, 0, 4};
  EXPECT_EQ(issue(), "expected loops of at least 1 iteration, got 0");
}

/// Calls an attention and its gradient on operands that the program has as
/// constants, and on copies of them in the device's memory.
TEST_F(GpuDeviceTest, AttentionOfConstants) {
  heddle_rt_attention_desc desc = {};
  desc.batch = desc.groups = desc.group_size = 1;
  desc.queries = 2;
  desc.keys = 3;
  desc.head = 2;
  desc.q_row_stride = desc.dq_row_stride = 2;
  desc.k_row_stride = desc.dk_row_stride = 2;
  desc.v_row_stride = desc.dv_row_stride = 2;
  desc.type = HEDDLE_RT_F32;
  desc.scale = 0.1f;
  desc.dropout = 0.5f;
  desc.global_queries = 2;
  desc.global_keys = 3;
  desc.global_groups = desc.global_group_size = 1;
  desc.mask_row_stride = 3;
  desc.mask_key_stride = 1;
  desc.mask_kind = HEDDLE_RT_MASK_ADDED;
  const float mask[] = {0, -1, 2, 1, 0, -3}, dO[] = {1, -1, 2, 3};
  const float lse[] = {5, 7};
  const int64_t step = 4;
  constexpr int64_t kNumbers = 4 + 2 + 4 + 6 + 6; // o, lse, dq, dk, dv
  auto compute = [&](const int64_t *step, const float *mask, const float *x,
                     const float *lse, const float *dO) {
    auto *to = reinterpret_cast<float *>(result->data());
    EXPECT_TRUE(
        device->fillZero(0, to, kNumbers * int64_t(sizeof(float))).ok());
    Status issued = device->attention(0, desc, {}, step, mask, x, x + 4, x + 10,
                                      to, to + 4);
    EXPECT_TRUE(issued.ok()) << issued.message();
    // Constants stand for the output and its lse too.
    issued = device->attentionGrad(0, desc, {}, step, mask, x, x + 4, x + 10,
                                   x + 16, lse, dO, to + 6, to + 10, to + 16);
    EXPECT_TRUE(issued.ok()) << issued.message();
    return read(kNumbers);
  };
  std::vector<std::unique_ptr<Region>> regions;
  auto copy = [&](const auto *from, size_t bytes) {
    auto region = device->allocate(bytes);
    EXPECT_TRUE(region.ok());
    EXPECT_TRUE(device->copyToDevice((*region)->data(), from, bytes).ok());
    regions.push_back(std::move(*region));
    return reinterpret_cast<decltype(from)>(regions.back()->data());
  };
  std::vector<float> expected =
      compute(copy(&step, sizeof step), copy(mask, sizeof mask),
              copy(constants, sizeof constants), copy(lse, sizeof lse),
              copy(dO, sizeof dO));
  EXPECT_NE(expected, std::vector<float>(kNumbers));
  EXPECT_EQ(compute(&step, mask, constants, lse, dO), expected);
}

TEST_F(GpuDeviceTest, EmbeddingGradOfConstants) {
  auto *table = reinterpret_cast<float *>(result->data());
  const int32_t ids[] = {2, 0, 2};
  Status issued = device->embeddingGrad(0, ids, 3, constants, HEDDLE_RT_F32, 2,
                                        0, 3, false, table);
  ASSERT_TRUE(issued.ok()) << issued.message();
  EXPECT_EQ(read(6), (std::vector<float>{3, 4, 0, 0, 6, 8}));
}

/// Rows with equal ids are added in their order. So the bits are those of a
/// loop.
TEST_F(GpuDeviceTest, EmbeddingGradAddsInOrder) {
  constexpr int64_t kFirst = 10, kTableRows = 7;
  std::mt19937 random(3);
  auto check = [&](int64_t width, const std::vector<int32_t> &ids, bool bf16,
                   bool accumulate) {
    SCOPED_TRACE(width);
    std::vector<float> values(ids.size() * size_t(width));
    std::vector<uint16_t> halves;
    for (float &value : values) {
      value = float(int32_t(random())) * 1e-9f;
      if (bf16) {
        halves.push_back(f32ToBf16(value));
        value = std::bit_cast<float>(uint32_t(halves.back()) << 16);
      }
    }
    std::vector<float> expected(size_t(kTableRows * width), 0.7f);
    auto table = device->allocate(expected.size() * sizeof(float));
    ASSERT_TRUE(table.ok());
    ASSERT_TRUE(device
                    ->copyToDevice((*table)->data(), expected.data(),
                                   expected.size() * sizeof(float))
                    .ok());
    if (!accumulate)
      expected.assign(expected.size(), 0);
    for (size_t i = 0; i < ids.size(); ++i)
      if (int64_t row = ids[i] - kFirst; row >= 0 && row < kTableRows)
        for (int64_t j = 0; j < width; ++j)
          expected[size_t(row * width + j)] +=
              values[i * size_t(width) + size_t(j)];
    const void *rows = bf16 ? static_cast<const void *>(halves.data())
                            : static_cast<const void *>(values.data());
    Status issued = device->embeddingGrad(
        0, ids.data(), int64_t(ids.size()), rows,
        bf16 ? HEDDLE_RT_BF16 : HEDDLE_RT_F32, width, kFirst, kTableRows,
        accumulate, reinterpret_cast<float *>((*table)->data()));
    ASSERT_TRUE(issued.ok()) << issued.message();
    Status done = device->synchronize();
    ASSERT_TRUE(done.ok()) << done.message();
    std::vector<float> got(expected.size());
    ASSERT_TRUE(device
                    ->copyToHost(got.data(), (*table)->data(),
                                 got.size() * sizeof(float))
                    .ok());
    EXPECT_EQ(
        std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)),
        0);
  };
  auto draw = [&](size_t count, int32_t from, uint32_t several) {
    std::vector<int32_t> ids(count);
    for (int32_t &id : ids)
      id = from + int32_t(random() % several);
    return ids;
  };
  // Some ids are of other shards, or of no row.
  std::vector<int32_t> few = draw(33, 8, 11), one(130, 12);
  few[5] = -100;
  for (int64_t width : {1, 31, 33, 1000, 4097})
    check(width, few, width == 1000, width != 33);
  check(3, one, false, true);
  // More ids than the kernel compares at once, most of them of other shards.
  std::vector<int32_t> many = draw(4300, 20, 1000);
  for (size_t at : {0, 1, 31, 32, 127, 128, 4095, 4096, 4097, 4224, 4299})
    many[at] = 13;
  many[129] = many[4229] = 16;
  check(33, many, true, false);
}

TEST_F(GpuDeviceTest, CopyOfConstants) {
  auto *to = reinterpret_cast<float *>(result->data());
  ASSERT_TRUE(device->copy(0, constants, 12, to, 12, 1, 12).ok());
  // Three runs of two numbers, every fifth one.
  ASSERT_TRUE(device->copy(0, constants + 4, 20, to + 3, 8, 3, 8).ok());
  EXPECT_EQ(read(9), (std::vector<float>{1, 2, 3, 5, 6, 10, 11, 15, 16}));
}

TEST_F(GpuDeviceTest, CollectiveOfConstants) {
  Status issued = device->collective(0, {.kind = Collective::Kind::AllReduce,
                                         .type = HEDDLE_RT_F32,
                                         .in = constants,
                                         .out = result->data(),
                                         .count = 4});
  ASSERT_TRUE(issued.ok()) << issued.message();
  EXPECT_EQ(read(4), (std::vector<float>{1, 2, 3, 4}));
}

TEST(GpuBackend, ClosesTheGpuAfterAnError) {
  int opened = 0;
  std::unique_ptr<Backend> backend =
      cuda::makeBackend([&]() -> Expected<cuda::Libraries> {
        ++opened;
        return cuda::Libraries{emulated::getDriver()};
      });
  CodeInfo code;
  code.triple = "x86_64-unknown-linux-gnu";
  code.chip = "sm_80";
  code.ptx = "missing.ptx";
  ASSERT_TRUE(backend->checkTarget(code).ok());
  ASSERT_TRUE(backend->checkMemory(1, {}).ok());
  EXPECT_EQ(opened, 1); // it stays open until devices are made
  DeviceOptions options;
  options.code = &code;
  EXPECT_FALSE(backend->makeDevices(options).ok());
  EXPECT_EQ(opened, 1);
  ASSERT_TRUE(backend->checkMemory(1, {}).ok());
  EXPECT_EQ(opened, 2);
}

} // namespace
