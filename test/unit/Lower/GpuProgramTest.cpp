//===- GpuProgramTest.cpp - Training steps with kernels of GPUs -----------===//
//
// Trains small models on an emulated GPU, and compares the losses with those of
// the program for this CPU.
//
//===----------------------------------------------------------------------===//

#include "GpuTraining.h"
#include <cmath>
#include <cstdlib>
#include <map>

using namespace mlir;
using namespace heddle;

namespace {

bool isLong() { return std::getenv("HEDDLE_LONG_TESTS"); }

class GpuProgramTest : public GpuTraining {
protected:
  /// Compares losses on the GPU with those of one CPU rank, with rows in each
  /// of the shapes.
  void compare(const std::string &model, CompileOptions options,
               const std::vector<std::string> &shapes, double bound = 1e-5) {
    const std::vector<float> &expected =
        trainOnCpu(model, options.training.bf16);
    ASSERT_EQ(expected.size(), size_t(kSteps));
    EXPECT_LT(expected.back(), expected.front());
    for (const std::string &rows : shapes) {
      options.targetGpu = "sm_80";
      options.gpuRows = rows;
      std::vector<float> losses = train(model, options);
      ASSERT_EQ(losses.size(), expected.size()) << rows;
      for (int64_t step = 0; step < kSteps; ++step)
        EXPECT_LE(std::abs(losses[step] - expected[step]),
                  bound * std::abs(expected[step]))
            << rows << ", step " << step << ": " << losses[step]
            << ", expected " << expected[step];
      if (rows == "auto") {
        EXPECT_EQ(losses, run(/*isForGpu=*/true)); // the same bits
        EXPECT_EQ(message, "");
        EXPECT_EQ(emulated::takeFault(), "");
      }
    }
  }

private:
  /// Returns the losses of one CPU rank. Each model is trained once.
  const std::vector<float> &trainOnCpu(const std::string &model, bool bf16) {
    static std::map<std::pair<std::string, bool>, std::vector<float>> known;
    auto [losses, isNew] = known.try_emplace({model, bf16});
    if (isNew) {
      CompileOptions serial;
      serial.training.bf16 = bf16;
      losses->second = train(model, serial);
    }
    return losses->second;
  }
};

/// The shapes of rows in which models are trained. In every check,
/// kernel_test_gpu_* run every kernel in all shapes.
std::vector<std::string> getShapes() {
  if (isLong())
    return {"auto", "thread", "warp", "block"};
  return {"auto"};
}

TEST_F(GpuProgramTest, Gpt2) { compare("gpt2", CompileOptions(), getShapes()); }
TEST_F(GpuProgramTest, Llama) {
  compare("llama", CompileOptions(), getShapes());
}

/// The vocabulary of 61 is padded: all rows that products read or write begin
/// at multiples of 16 bytes.
TEST_F(GpuProgramTest, BF16) {
  CompileOptions options;
  options.training.bf16 = true;
  emulated::takeCounts();
  compare("gpt2", options, {"auto"}, 5e-3);
  emulated::Counts counts = emulated::takeCounts();
  EXPECT_GT(counts.products, 0);
  EXPECT_EQ(counts.misaligned, 0);
  EXPECT_GT(counts.attentions, 0); // by cuDNN
}

/// Shards of a sequence: cuDNN computes those that begin at the same position,
/// our kernels the others.
TEST_F(GpuProgramTest, BF16Context) {
  CompileOptions options;
  options.training.bf16 = true;
  options.mesh.context = 2;
  emulated::takeCounts();
  compare("gpt2", options, {"auto"}, 5e-3);
  EXPECT_GT(emulated::takeCounts().attentions, 0);
}

TEST_F(GpuProgramTest, TensorParallel) {
  CompileOptions options;
  options.mesh.data = options.mesh.tensor = {2};
  compare("gpt2", options, {"auto"});
}

TEST_F(GpuProgramTest, TensorParallel4) {
  if (!isLong())
    GTEST_SKIP() << "TensorParallel trains on four ranks, too; "
                    "HEDDLE_LONG_TESTS=1: also with tp=4";
  CompileOptions options;
  options.mesh.tensor = {4};
  compare("gpt2", options, {"auto"});
}

TEST_F(GpuProgramTest, SequenceParallel) {
  CompileOptions options;
  options.mesh.tensor = {2};
  options.mesh.sequence = true;
  compare("llama", options, {"auto"});
}

TEST_F(GpuProgramTest, Context) {
  if (!isLong())
    GTEST_SKIP() << "BF16Context trains with this plan; HEDDLE_LONG_TESTS=1: "
                    "here, too";
  CompileOptions options;
  options.mesh.context = 2;
  compare("gpt2", options, {"auto"});
}

TEST_F(GpuProgramTest, Zero1And2) {
  for (int64_t level = isLong() ? 1 : 2; level <= 2; ++level) {
    CompileOptions options;
    options.mesh.data = {2};
    options.zeroLevel = level;
    compare("gpt2", options, {"auto"});
  }
}

TEST_F(GpuProgramTest, Zero) {
  if (!isLong())
    GTEST_SKIP() << "numerics-gpu trains a llama with zero3; "
                    "HEDDLE_LONG_TESTS=1: here, too";
  CompileOptions options;
  options.mesh.data = {2};
  options.zeroLevel = 3;
  compare("llama", options, {"auto"});
}

} // namespace
