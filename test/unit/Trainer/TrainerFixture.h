//===- TrainerFixture.h - Sessions of the bigram model ----------*- C++ -*-===//

#ifndef HEDDLE_TEST_TRAINER_TRAINERFIXTURE_H
#define HEDDLE_TEST_TRAINER_TRAINERFIXTURE_H

#include "heddle_rt/checkpoint.h"
#include "heddle_rt/evaluate.h"
#include "heddle_rt/trainer.h"

#include "TestModel.h"
#include "program.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace heddle::runtime {

/// A batch of the program's shape, but perhaps other sizes.
inline Batch makeBatch(int64_t rows, int64_t sequence,
                       const std::vector<int32_t> &tokens,
                       const std::vector<int32_t> &targets) {
  auto make = [&](const char *name, const std::vector<int32_t> &values) {
    ConstBytes bytes = bytesOf(values);
    return BatchTensor{
        name, HEDDLE_RT_I32, {rows, sequence}, {bytes.begin(), bytes.end()}};
  };
  return {{make("tokens", tokens), make("targets", targets)}};
}

/// Records everything that a run reports.
struct Recorder : TrainObserver {
  std::vector<float> losses;
  std::vector<double> heldOutLosses;
  std::vector<int64_t> checkpoints;
  std::function<void(const StepReport &)> onStep;

  void step(const StepReport &report) override {
    losses.push_back(report.loss);
    if (onStep)
      onStep(report);
  }
  void heldOut(int64_t, double loss, int64_t) override {
    heldOutLosses.push_back(loss);
  }
  void checkpoint(int64_t step, const std::filesystem::path &) override {
    checkpoints.push_back(step);
  }
  void note(const std::string &) override {}
};

class TrainerTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() /
             ("heddle-trainer-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    // A token is mostly followed by token + 1, sometimes by a random one.
    std::ofstream text(folder / "text", std::ios::binary);
    uint32_t state = 1, token = 0;
    for (int i = 0; i < 2000; ++i) {
      state = state * 1103515245 + 12345;
      token = (state >> 16) % 4 == 0 ? (state >> 20) % bigram::V
                                     : (token + 1) % bigram::V;
      text.put(static_cast<char>(token));
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::unique_ptr<Session> load(int devices = 1, int microBatches = 1) {
    std::filesystem::path path =
        folder / ("artifact-" + std::to_string(devices) + "-" +
                  std::to_string(microBatches));
    std::filesystem::create_directories(path);
    std::filesystem::copy_file(HEDDLE_TEST_PROGRAM, path / "program.so",
                               std::filesystem::copy_options::skip_existing);
    std::ofstream(path / "manifest.json")
        << bigram::manifest(devices, microBatches);
    SessionOptions options;
    options.coresPerDevice = 1;
    auto session = Session::load(path, options);
    EXPECT_TRUE(session.ok()) << session.message();
    return session.ok() ? *std::move(session) : nullptr;
  }

  TrainOptions options(int64_t steps, const std::string &run) {
    TrainOptions options;
    options.data = folder / "text";
    options.steps = steps;
    options.output = folder / run;
    options.checkpointEach = 4;
    options.evaluateEach = 0;
    options.checkReplicas = true;
    return options;
  }

  Expected<TrainOutcome> run(Session &session, const TrainOptions &options,
                             Recorder &recorder) {
    return train(session, options, recorder, [this] { return stop; });
  }

  /// Returns all bytes of a checkpoint's model.safetensors.
  std::string content(const std::string &name, int64_t step) {
    std::ifstream file(checkpointPath(checkpointFolder(folder / name), step) /
                           "model.safetensors",
                       std::ios::binary);
    EXPECT_TRUE(file.good());
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::filesystem::path folder;
  bool stop = false;
};

inline std::string message(const auto &result) {
  return std::string(result.message());
}

inline void expectError(const auto &result, const std::string &part) {
  EXPECT_FALSE(result.ok());
  EXPECT_NE(message(result).find(part), std::string::npos) << message(result);
}

} // namespace heddle::runtime

#endif // HEDDLE_TEST_TRAINER_TRAINERFIXTURE_H
