//===- CudnnPlanTest.cpp - Plans of the real cuDNN ------------------------===//
//
// cuDNN makes plans for a GPU that is described by its properties. So where it
// is installed, the engines of the real library accept our graphs, on machines
// without a GPU too. The plans do not run. The test skips where cuDNN is not
// installed.
//
//===----------------------------------------------------------------------===//

#include "backends/cuda/AttentionGraph.h"

#include "gtest/gtest.h"
#include <dlfcn.h>
#include <string>

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

struct Sizes {
  int64_t batch, queries, keys, groups, members, head;
};

heddle_rt_attention_desc describe(int32_t type, Sizes s, bool causal,
                                  int64_t window = 0) {
  heddle_rt_attention_desc d = {};
  d.batch = s.batch, d.queries = s.queries, d.keys = s.keys;
  d.groups = s.groups, d.group_size = s.members, d.head = s.head;
  d.q_head_stride = d.dq_head_stride = s.head;
  d.q_group_stride = d.dq_group_stride = s.members * s.head;
  d.q_row_stride = d.dq_row_stride = s.groups * d.q_group_stride;
  d.q_batch_stride = d.dq_batch_stride = s.queries * d.q_row_stride;
  d.k_group_stride = d.v_group_stride = d.dk_group_stride = d.dv_group_stride =
      s.head;
  d.k_row_stride = d.v_row_stride = d.dk_row_stride = d.dv_row_stride =
      s.groups * s.head;
  d.k_batch_stride = d.v_batch_stride = d.dk_batch_stride = d.dv_batch_stride =
      s.keys * d.k_row_stride;
  d.type = type;
  d.causal = causal;
  d.window = window;
  d.scale = 0.125f;
  d.global_queries = s.queries, d.global_keys = s.keys;
  d.global_groups = s.groups, d.global_group_size = s.members;
  return d;
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
