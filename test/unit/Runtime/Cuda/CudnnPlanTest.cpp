//===- CudnnPlanTest.cpp - Plans of the real cuDNN ------------------------===//
//
// cuDNN makes plans for a GPU that is described by its properties. So where it
// is installed, the engines of the real library accept our graphs, on machines
// without a GPU too. The plans do not run. The test skips where cuDNN is not
// installed.
//
//===----------------------------------------------------------------------===//

#include "backends/cuda/attention/AttentionGraph.h"
#include "test/support/DenseAttention.h"

#include "gtest/gtest.h"
#include <dlfcn.h>
#include <string>

using namespace heddle;
using namespace heddle::runtime;
using namespace heddle::runtime::cuda;

namespace {

struct Gpu {
  const char *name;
  int version, multiprocessors, sharedBytes;
};
constexpr Gpu kA100{"A100", 800, 108, 167936}, kH200{"H200", 900, 132, 233472},
    kB200{"B200", 1000, 148, 233472}, kRtx{"RTX PRO", 1200, 188, 102400};

/// The library's own form of the properties of a GPU.
std::string propertiesOf(const Gpu &gpu) {
  std::string text = R"({"deviceName": ")";
  text += gpu.name;
  text += "\"";
  auto add = [&](const char *key, int64_t value) {
    text += ", \"" + std::string(key) + "\": " + std::to_string(value);
  };
  add("deviceVer", gpu.version);
  add("driverVer", 13000);
  add("multiProcessorCount", gpu.multiprocessors);
  add("warpSize", 32);
  add("maxSharedMemoryPerBlock", 49152);
  add("maxSharedMemoryPerBlockOptin", gpu.sharedBytes - 1024);
  add("reservedSharedMemoryPerBlock", 1024);
  add("maxSharedMemoryPerSM", gpu.sharedBytes);
  add("regsPerBlock", 65536);
  add("maxRegistersPerSM", 65536);
  add("maxThreadsPerBlock", 1024);
  add("maxThreadsPerSM", 2048);
  add("maxCtasPerSM", 32);
  add("l2CacheSize", 52428800);
  add("totalGlobalMem", 150'000'000'000);
  add("smClockRateKHz", 1980000);
  add("memClockRateKHz", 3201000);
  add("supportCoopLaunch", 1);
  add("isTccDriver", 0);
  add("cudaDeviceId", 0);
  add("pciDeviceId", 0);
  text += R"(, "maxBlockSize": [1024, 1024, 64])"
          R"(, "maxGridSize": [2147483647, 65535, 65535]})";
  return text;
}

class CudnnPlanTest : public ::testing::Test {
protected:
  void SetUp() override {
    // The library looks for the driver by its name, and finds what is loaded.
    ASSERT_TRUE(dlopen(HEDDLE_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL))
        << dlerror();
    Expected<dnn::Cudnn> loaded = dnn::loadCudnn();
    if (!loaded.ok())
      GTEST_SKIP() << loaded.message();
    library = *loaded;
  }

  /// Makes both plans of an attention for a GPU.
  void plan(const Gpu &gpu, const heddle_rt_attention_desc &desc) {
    ASSERT_EQ(findObstacle(desc, {}), "");
    dnn::Descriptor properties = nullptr;
    std::string text = propertiesOf(gpu);
    ASSERT_EQ(library.createDescriptor(dnn::kDeviceProperties, &properties), 0);
    ASSERT_EQ(library.setAttribute(properties, dnn::kDeviceJson, dnn::kTypeChar,
                                   int64_t(text.size()), text.data()),
              0);
    Status done = library.check(library.finalize(properties), "finalize");
    ASSERT_TRUE(done.ok()) << done.message();
    auto forward = AttentionPlan::make(library, {nullptr, properties}, desc,
                                       AttentionPass::Forward);
    EXPECT_TRUE(forward.ok()) << gpu.name << ": " << forward.message();
    auto backward = AttentionPlan::make(library, {nullptr, properties}, desc,
                                        AttentionPass::Backward);
    EXPECT_TRUE(backward.ok()) << gpu.name << ": " << backward.message();
    if (forward.ok() && backward.ok()) {
      EXPECT_LT(forward->workspaceBytes(), size_t(1) << 20);
      // The gradients of the scores are kept: the passes that add in the order
      // of blocks have no room for them.
      int64_t scores = desc.batch * desc.groups * desc.group_size *
                       desc.queries * desc.keys * 2;
      EXPECT_GE(backward->workspaceBytes(), size_t(scores)) << gpu.name;
      RecordProperty("workspace", int(backward->workspaceBytes()));
    }
    library.destroyDescriptor(properties);
  }

  dnn::Cudnn library;
};

heddle_rt_attention_desc describe(int32_t type, AttentionSizes sizes,
                                  bool causal, int64_t window = 0) {
  return describeDense(type, sizes, causal, window, 0.125f);
}

/// GPT-2 124M with 8 sequences, on each family of GPUs.
TEST_F(CudnnPlanTest, Gpt2) {
  for (const Gpu &gpu : {kA100, kH200, kB200, kRtx})
    plan(gpu,
         describe(HEDDLE_RT_BF16, {8, 1024, 1024, 12, 1, 64}, /*causal=*/true));
}

/// Llama's groups of heads, and a window.
TEST_F(CudnnPlanTest, Groups) {
  plan(kH200, describe(HEDDLE_RT_BF16, {2, 512, 512, 8, 4, 128}, true, 100));
}

/// Sizes that fill no tile, without causality, in f16.
TEST_F(CudnnPlanTest, OddSizes) {
  plan(kH200, describe(HEDDLE_RT_F16, {3, 100, 77, 2, 1, 40}, false));
}

} // namespace
