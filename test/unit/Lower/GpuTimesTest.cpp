//===- GpuTimesTest.cpp - Kernels of a program, each alone ----------------===//

#include "GpuTraining.h"
#include "heddle_rt/kernel_times.h"
#include <algorithm>

using namespace heddle;

namespace {

class GpuTimesTest : public GpuTraining {
protected:
  runtime::Expected<runtime::KernelTimes> time() {
    auto manifest = runtime::readManifest(directory / "manifest.json");
    EXPECT_TRUE(manifest.ok()) << manifest.message();
    code = manifest->code.front();
    backend = runtime::cuda::makeBackend(
        []() -> runtime::Expected<runtime::cuda::Libraries> {
          return emulatedGpu();
        });
    return backend->timeKernels(code, directory);
  }

  runtime::CodeInfo code;
};

/// Every kernel runs, within its buffers; the bytes that it reads and writes
/// are known. The emulated GPU's clock stands still meanwhile.
TEST_F(GpuTimesTest, AllKernels) {
  CompileOptions options;
  options.targetGpu = "sm_80";
  ASSERT_TRUE(compile("gpt2", options));
  emulated::takeCounts();
  auto times = time();
  ASSERT_TRUE(times.ok()) << times.message();
  EXPECT_EQ(emulated::takeFault(), "");
  EXPECT_EQ(times->device, "an emulated GPU");
  ASSERT_EQ(times->kernels.size(), code.kernels.size());
  EXPECT_TRUE(std::ranges::any_of(
      code.kernels, [](const auto &kernel) { return kernel.isTable; }));
  for (size_t i = 0; i < code.kernels.size(); ++i) {
    EXPECT_EQ(times->kernels[i].symbol, code.kernels[i].symbol);
    EXPECT_GT(times->kernels[i].bytes, 0) << code.kernels[i].symbol;
  }
  // 3 launches to warm up and 20 more, for each kernel and for the copy that
  // measures the bandwidth.
  EXPECT_GE(emulated::takeCounts().launches,
            23 * (int64_t(code.kernels.size()) + 1));
}

TEST_F(GpuTimesTest, ProgramForCpus) {
  ASSERT_TRUE(compile("gpt2", {}));
  auto times = runtime::timeKernels(directory);
  EXPECT_EQ(times.message(),
            "expected a program for GPUs, got one for devices of kind cpu: "
            "compile the model with --target-gpu");
}

} // namespace
