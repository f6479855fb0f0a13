//===- GpuDeviceTest.cpp - Calls of a rank on a GPU -----------------------===//

#include "backends/cuda/CudaCommunicator.h"
#include "test/support/EmulatedCuda/EmulatedCuda.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace heddle;
using namespace heddle::runtime;

namespace {

/// A rank alone on an emulated GPU.
class GpuDeviceTest : public ::testing::Test {
protected:
  void SetUp() override {
    auto card = cuda::Card::open(
        {emulated::getDriver(), []() -> Expected<cuda::blas::CublasLt> {
           return emulated::getCublasLt();
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

  static constexpr size_t kMost = 64;
  std::unique_ptr<cuda::CudaDevice> device;
  std::unique_ptr<Region> result;
  /// Of the program: they lie in the host's memory.
  float constants[24];
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

} // namespace
