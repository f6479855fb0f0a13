//===- GpuTraining.h - Trains small models on an emulated GPU ---*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_LOWER_GPUTRAINING_H
#define HEDDLE_TEST_UNIT_LOWER_GPUTRAINING_H

#include "backends/cuda/CudaBackend.h"
#include "heddle/Import/Import.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle_rt/session.h"
#include "test/support/EmulatedCuda/EmulatedCuda.h"
#include "test/support/WithContext.h"
#include "gtest/gtest.h"
#include <filesystem>
#include <random>

namespace heddle {

/// The first run of a step is issued call by call, the second is recorded as a
/// graph, and the others repeat it.
constexpr int64_t kBatch = 4, kSequence = 12, kSteps = 3, kVocabulary = 61;

class GpuTraining : public ::testing::Test, protected test::WithContext {
protected:
  GpuTraining() {
    directory = std::filesystem::temp_directory_path() /
                ("heddle-gpu-program-test-" + std::to_string(::getpid()));
  }
  ~GpuTraining() override { std::filesystem::remove_all(directory); }

  /// Compiles a model into `directory`. The emulated GPU gets its kernels.
  bool compile(const std::string &model, const CompileOptions &options) {
    ImportOptions import;
    import.path = std::string(HEDDLE_SOURCE_DIR "/test/reference/") + model +
                  "/config.json";
    import.batch = kBatch / options.training.microBatches;
    import.sequence = kSequence;
    auto module = importModel(context, import);
    if (failed(module) ||
        failed(compileToArtifact(**module, options, directory.string()))) {
      ADD_FAILURE() << diagnostics;
      return false;
    }
    if (options.targetGpu.empty())
      return true;
    auto compiled = GpuEmulator::compile(**module);
    if (!compiled) {
      ADD_FAILURE() << llvm::toString(compiled.takeError());
      return false;
    }
    emulated::provideKernels(std::move(*compiled));
    return true;
  }

  /// Trains the compiled model for some steps and returns the losses. The GPU,
  /// if it is compiled for one, is reached by `libraries`. After an error,
  /// `message` tells it.
  std::vector<float> run(bool isForGpu,
                         runtime::cuda::Libraries libraries = emulatedGpu()) {
    message.clear();
    auto loaded = isForGpu ? loadOn(libraries)
                           : runtime::Session::load(directory, getOptions());
    if (!loaded.ok()) {
      message = loaded.message();
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
        message = status.message();
        return {};
      }
      losses.push_back(loss);
    }
    return losses;
  }

  static runtime::SessionOptions getOptions() {
    runtime::SessionOptions session;
    session.coresPerDevice = 1;
    session.collectiveTimeout = std::chrono::seconds(20);
    return session;
  }

  /// Loads the compiled model on the GPU that `libraries` reach.
  runtime::Expected<std::unique_ptr<runtime::Session>>
  loadOn(runtime::cuda::Libraries libraries) {
    backend = runtime::cuda::makeBackend(
        [libraries]() -> runtime::Expected<runtime::cuda::Libraries> {
          return libraries;
        });
    runtime::SessionOptions session = getOptions();
    session.backend = backend.get();
    return runtime::Session::load(directory, session);
  }

  static runtime::cuda::Libraries emulatedGpu() {
    return {emulated::getDriver(),
            [](int) -> runtime::Expected<runtime::cuda::blas::CublasLt> {
              return emulated::getCublasLt();
            },
            [](int) -> runtime::Expected<runtime::cuda::dnn::Cudnn> {
              return emulated::getCudnn();
            }};
  }

  /// Compiles and runs. An error, or a fault of the emulated GPU, fails the
  /// test.
  std::vector<float> train(const std::string &model,
                           const CompileOptions &options) {
    bool isForGpu = !options.targetGpu.empty();
    if (!compile(model, options))
      return {};
    std::vector<float> losses = run(isForGpu);
    EXPECT_EQ(message, "");
    EXPECT_EQ(emulated::takeFault(), "");
    return losses;
  }

  std::filesystem::path directory;
  std::string message;
  std::unique_ptr<runtime::Backend> backend; ///< of the last loadOn
};

} // namespace heddle

#endif // HEDDLE_TEST_UNIT_LOWER_GPUTRAINING_H
