//===- GpuProgramTest.cpp - Training steps with kernels of GPUs -----------===//
//
// Trains small models with kernels for a GPU on the emulator, and compares the
// losses with those of the program for this CPU.
//
//===----------------------------------------------------------------------===//

#include "device/Backend.h"
#include "heddle/Import/Import.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle_rt/session.h"
#include "test/support/GpuEmulator/EmulatedBackend.h"
#include "test/support/WithContext.h"
#include "gtest/gtest.h"
#include <cmath>
#include <filesystem>
#include <random>

using namespace mlir;
using namespace heddle;

namespace {

constexpr int64_t kBatch = 8, kSequence = 12, kSteps = 3, kVocabulary = 61;

class GpuProgramTest : public ::testing::Test, protected test::WithContext {
protected:
  GpuProgramTest() {
    directory = std::filesystem::temp_directory_path() /
                ("heddle-gpu-program-test-" + std::to_string(::getpid()));
  }
  ~GpuProgramTest() override { std::filesystem::remove_all(directory); }

  /// Compiles a model and trains it for some steps. Returns the losses.
  std::vector<float> train(const std::string &model, CompileOptions options) {
    ImportOptions import;
    import.path = std::string(HEDDLE_SOURCE_DIR "/test/reference/") + model +
                  "/config.json";
    import.batch = kBatch;
    import.sequence = kSequence;
    auto module = importModel(context, import);
    if (failed(module) ||
        failed(compileToArtifact(**module, options, directory.string()))) {
      ADD_FAILURE() << diagnostics;
      return {};
    }
    runtime::SessionOptions session;
    session.coresPerDevice = 1;
    std::unique_ptr<GpuEmulator> emulator;
    std::unique_ptr<runtime::Backend> backend;
    if (!options.targetGpu.empty()) {
      auto compiled = GpuEmulator::compile(**module);
      if (!compiled) {
        ADD_FAILURE() << llvm::toString(compiled.takeError());
        return {};
      }
      emulator = std::move(*compiled);
      backend = makeEmulatedBackend(*emulator);
      session.backend = backend.get();
    }
    auto loaded = runtime::Session::load(directory, session);
    if (!loaded.ok()) {
      ADD_FAILURE() << loaded.message();
      return {};
    }
    std::mt19937 random(5);
    std::vector<int32_t> tokens(kBatch * kSequence), targets(tokens.size());
    for (int32_t &token : tokens)
      token = random() % kVocabulary;
    for (int32_t &target : targets)
      target = random() % kVocabulary;
    targets[3] = -100; // ignored
    std::vector<float> losses;
    for (int64_t step = 0; step < kSteps; ++step) {
      float loss = 0;
      runtime::Status status = (*loaded)->run(
          "step", {runtime::bytesOf(tokens), runtime::bytesOf(targets)},
          {runtime::writableBytesOf(loss), {}, {}});
      if (!status.ok()) {
        ADD_FAILURE() << status.message();
        return {};
      }
      losses.push_back(loss);
    }
    return losses;
  }

  /// Compares losses on the GPU with those of one CPU rank: rows in the shapes
  /// of `shapes`, which is "auto" or "all".
  void compare(const std::string &model, CompileOptions options,
               const std::string &shapes, double bound = 1e-5) {
    CompileOptions serial;
    serial.training = options.training;
    std::vector<float> expected = train(model, serial);
    ASSERT_EQ(expected.size(), size_t(kSteps));
    EXPECT_LT(expected.back(), expected.front());
    std::vector<std::string> all{"auto", "thread", "warp", "block"};
    if (shapes == "auto")
      all.resize(1);
    for (const std::string &rows : all) {
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
        EXPECT_EQ(losses, train(model, options)); // the same bits
      }
    }
  }

  std::filesystem::path directory;
};

TEST_F(GpuProgramTest, Gpt2) { compare("gpt2", CompileOptions(), "all"); }
TEST_F(GpuProgramTest, Llama) { compare("llama", CompileOptions(), "all"); }

TEST_F(GpuProgramTest, BF16) {
  CompileOptions options;
  options.training.bf16 = true;
  compare("gpt2", options, "auto", 5e-3);
}

TEST_F(GpuProgramTest, TensorParallel) {
  CompileOptions options;
  options.mesh.data = options.mesh.tensor = {2};
  compare("gpt2", options, "auto");
}

TEST_F(GpuProgramTest, Zero) {
  CompileOptions options;
  options.mesh.data = {2};
  options.zeroLevel = 3;
  compare("llama", options, "auto");
}

} // namespace
