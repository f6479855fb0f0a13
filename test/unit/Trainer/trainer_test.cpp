//===- trainer_test.cpp - Training runs and checkpoints -------------------===//

#include "TrainerFixture.h"
#include "heddle_rt/safetensors.h"

#include <chrono>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace heddle::runtime;

TEST_F(TrainerTest, TheLossFalls) {
  auto session = load();
  ASSERT_TRUE(session);
  Recorder recorder;
  auto outcome = run(*session, options(60, "run"), recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_EQ(outcome->step, 60);
  EXPECT_FALSE(outcome->interrupted);
  ASSERT_EQ(recorder.losses.size(), 60u);
  EXPECT_LT(recorder.losses.back(), recorder.losses.front() - 0.1f);
  ASSERT_EQ(recorder.heldOutLosses.size(), 1u);
  EXPECT_LT(recorder.heldOutLosses[0], recorder.losses.front());
  // The run keeps the newest three of its checkpoints at steps 4, 8, ..., 60.
  auto kept = listCheckpoints(checkpointFolder(folder / "run"));
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept.front().filename(), "step-00000052");
  EXPECT_EQ(kept.back().filename(), "step-00000060");
  // Variables that are zero between steps are not saved.
  auto reader = safetensors::Reader::open(kept.back().string());
  ASSERT_TRUE(reader.ok()) << reader.message();
  EXPECT_TRUE(reader->find("w"));
  for (const char *sum : {"gradient.w", "loss_sum", "count"})
    EXPECT_FALSE(reader->find(sum)) << sum;
}

TEST_F(TrainerTest, ResumingGivesTheSameBits) {
  Recorder whole, first, second;
  auto session = load(2);
  ASSERT_TRUE(run(*session, options(12, "whole"), whole).ok());

  // Stops after step 6, which is between two regular checkpoints.
  session = load(2);
  first.onStep = [&](const StepReport &report) { stop = report.step == 6; };
  auto outcome = run(*session, options(12, "parts"), first);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_TRUE(outcome->interrupted);
  EXPECT_EQ(outcome->step, 6);
  EXPECT_EQ(first.checkpoints, (std::vector<int64_t>{4, 6}));

  stop = false;
  session = load(2);
  TrainOptions resumed = options(12, "parts");
  resumed.resume = true;
  ASSERT_TRUE(run(*session, resumed, second).ok());
  first.losses.insert(first.losses.end(), second.losses.begin(),
                      second.losses.end());
  EXPECT_EQ(first.losses, whole.losses);
  EXPECT_EQ(first.heldOutLosses.size() + second.heldOutLosses.size(), 1u);
  EXPECT_EQ(second.heldOutLosses, whole.heldOutLosses);
  EXPECT_EQ(content("parts", 12), content("whole", 12));
}

TEST_F(TrainerTest, MicroBatchesSeeOtherRowsAndSumUp) {
  Recorder recorder;
  auto session = load(2, 3);
  ASSERT_TRUE(session);
  auto outcome = run(*session, options(10, "run"), recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  auto state = readState(checkpointPath(checkpointFolder(folder / "run"), 10));
  ASSERT_TRUE(state.ok()) << state.message();
  EXPECT_EQ(state->rowsPerStep, 3 * bigram::B);
  EXPECT_LT(recorder.losses.back(), recorder.losses.front());

  // The first loss is the mean over the rows of three micro-batches. An
  // artifact without micro-batches computes them one by one.
  auto data = TokenData::open(folder / "text", std::nullopt, bigram::V);
  ASSERT_TRUE(data.ok());
  auto sampler = WindowSampler::create(*data, bigram::S, 0.1, 5);
  ASSERT_TRUE(sampler.ok());
  session = load(1);
  double sum = 0;
  for (int micro = 0; micro < 3; ++micro) {
    std::vector<int32_t> tokens(bigram::B * bigram::S), targets(tokens.size());
    ASSERT_TRUE(sampler->sample(0, micro * bigram::B, tokens, targets).ok());
    auto result = evaluate(
        *session, makeBatch(bigram::B, bigram::S, tokens, targets), {});
    ASSERT_TRUE(result.ok()) << result.message();
    sum += result->loss;
  }
  EXPECT_NEAR(recorder.losses[0], sum / 3, 1e-5);
}

TEST_F(TrainerTest, AStepIsTheLoopOverItsMicroBatches) {
  constexpr size_t size = bigram::B * bigram::S;
  std::vector<int32_t> tokens(3 * size), targets(3 * size);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = int32_t(i * 7 % bigram::V);
    targets[i] = int32_t(i * 5 % bigram::V);
  }
  struct Results {
    float rate = 0, loss = 0, norm = 0;
    std::vector<Bytes> spans() {
      return {writableBytesOf(rate), writableBytesOf(loss),
              writableBytesOf(norm)};
    }
    bool operator==(const Results &) const = default;
  };
  auto table = load(2, 3), loop = load(2, 3);
  ASSERT_TRUE(table && loop);
  for (int step = 0; step < 3; ++step) {
    Results ofTable, ofLoop;
    Status status = table->run(
        "step", std::vector<ConstBytes>{bytesOf(targets), bytesOf(tokens)},
        ofTable.spans());
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t micro = 0; micro < 3; ++micro) {
      auto part = [&](const std::vector<int32_t> &values) {
        return bytesOf(values).subspan(micro * size * sizeof(int32_t),
                                       size * sizeof(int32_t));
      };
      status = loop->run("accumulate",
                         std::vector<ConstBytes>{part(targets), part(tokens)},
                         std::vector<Bytes>());
      ASSERT_TRUE(status.ok()) << status.message();
    }
    status = loop->run("update", std::vector<ConstBytes>(), ofLoop.spans());
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(ofTable, ofLoop);
  }
  std::vector<float> first(bigram::V * bigram::V), second(first.size());
  ASSERT_TRUE(table->readVariable("w", writableBytesOf(first)).ok());
  ASSERT_TRUE(loop->readVariable("w", writableBytesOf(second)).ok());
  EXPECT_EQ(first, second);
}

TEST_F(TrainerTest, ACheckpointLoadsOnAnotherNumberOfDevices) {
  Recorder recorder, other;
  auto session = load(2);
  ASSERT_TRUE(run(*session, options(8, "two"), recorder).ok());
  session = load(1);
  TrainOptions from = options(12, "one");
  from.from = checkpointPath(checkpointFolder(folder / "two"), 8);
  auto outcome = run(*session, from, other);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_EQ(other.losses.size(), 4u);

  Recorder straight;
  session = load(1);
  ASSERT_TRUE(run(*session, options(12, "straight"), straight).ok());
  EXPECT_NEAR(other.losses.back(), straight.losses.back(), 1e-5);
}

TEST_F(TrainerTest, AddsUpTheTimesOfStepsWithoutEvaluations) {
  Recorder recorder;
  auto session = load(2);
  TrainOptions trained = options(8, "run");
  trained.evaluateEach = 2;
  double seconds = 0;
  DeviceTimes first;
  recorder.onStep = [&](const StepReport &report) {
    seconds += report.seconds;
    first += report.times;
  };
  auto outcome = run(*session, trained, recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_EQ(recorder.heldOutLosses.size(), 4u);
  EXPECT_EQ(outcome->timedSteps, 8);
  ASSERT_EQ(outcome->times.size(), 2u);
  EXPECT_EQ(outcome->times.front().calls, first.calls);
  EXPECT_EQ(outcome->times.front().total, first.total);
  EXPECT_GT(first.total, 0);
  EXPECT_LE(first.total, seconds);
}

TEST_F(TrainerTest, RefusesWhatWouldNotBeTheSameRun) {
  Recorder recorder;
  auto session = load();
  TrainOptions resumed = options(8, "run");
  resumed.resume = true;
  expectError(run(*session, resumed, recorder), "no checkpoint in");
  ASSERT_TRUE(run(*session, options(4, "run"), recorder).ok());
  expectError(run(*session, options(8, "run"), recorder),
              "already holds a run");

  session = load(1, 3);
  expectError(run(*session, resumed, recorder),
              "the number of rows a step was 4 and is now 12, so the run would "
              "not be the same; give --batch and --micro-batches with a "
              "product of 4, or start a new run from this checkpoint (--from) "
              "in another folder (--output)");
  session = load();
  resumed.heldOutFraction = 0.2;
  expectError(run(*session, resumed, recorder),
              "the held-out fraction was 0.1 and is now 0.2, so the run would "
              "not be the same; give --held-out 0.1, or");
  resumed = options(8, "run");
  resumed.resume = true;
  std::ofstream(folder / "text", std::ios::app) << '\1';
  expectError(run(*session, resumed, recorder),
              "the number of tokens of the data was 2000 and is now 2001");
}

TEST_F(TrainerTest, ABrokenCheckpointIsAnErrorAndChangesNothing) {
  Recorder recorder;
  auto session = load();
  ASSERT_TRUE(run(*session, options(4, "run"), recorder).ok());
  fs::path checkpoint = checkpointPath(checkpointFolder(folder / "run"), 4);
  fs::path file = checkpoint / "model.safetensors";
  fs::resize_file(file, fs::file_size(file) - 4);

  session = load();
  std::vector<float> before(bigram::V * bigram::V), after(before.size());
  ASSERT_TRUE(session->readVariable("w", writableBytesOf(before)).ok());
  expectError(loadCheckpoint(*session, checkpoint), checkpoint.string());
  ASSERT_TRUE(session->readVariable("w", writableBytesOf(after)).ok());
  EXPECT_EQ(before, after);

  std::ofstream(checkpoint / "state.json")
      << "{\"version\": 1, \"step\": \"4\"}";
  expectError(readState(checkpoint), "expected an integer");
  std::ofstream(checkpoint / "state.json") << "{\"version\":\n 1e999}";
  expectError(readState(checkpoint),
              "state.json:2:2: expected a number that a double can hold");
}

TEST_F(TrainerTest, AFullDiskLeavesOlderCheckpoints) {
  Recorder recorder;
  auto session = load();
  // A limit on the size of files fails writes as a full disk does.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  recorder.onStep = [&](const StepReport &report) {
    rlimit limit = old;
    limit.rlim_cur = 512;
    if (report.step == 6)
      ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  };
  auto outcome = run(*session, options(12, "run"), recorder);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  expectError(outcome, "checkpoint '");
  auto kept = listCheckpoints(checkpointFolder(folder / "run"));
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].filename(), "step-00000004");
  // No half-written checkpoint stays.
  int entries = 0;
  for (auto &entry : fs::directory_iterator(checkpointFolder(folder / "run"))) {
    (void)entry;
    ++entries;
  }
  EXPECT_EQ(entries, 1);
  session = load();
  EXPECT_TRUE(loadCheckpoint(*session, kept[0]).ok());
}

TEST_F(TrainerTest, WeightsGoOutAndComeIn) {
  Recorder recorder;
  auto session = load();
  TrainOptions exporting = options(4, "run");
  exporting.exportTo = folder / "export";
  ASSERT_TRUE(run(*session, exporting, recorder).ok());
  auto reader = safetensors::Reader::open((folder / "export").string());
  ASSERT_TRUE(reader.ok()) << reader.message();
  ASSERT_EQ(reader->tensors().size(), 1u);
  EXPECT_EQ(reader->tensors()[0].name, "model.bigram.weight");
  EXPECT_EQ(reader->tensors()[0].shape, (std::vector<int64_t>{256}));
  std::ifstream config(folder / "export" / "config.json");
  std::string line;
  EXPECT_TRUE(std::getline(config, line) && line == "{\"a\": 1}");

  std::vector<float> trained(bigram::V * bigram::V), loaded(trained.size());
  ASSERT_TRUE(session->readVariable("w", writableBytesOf(trained)).ok());
  session = load(2);
  ASSERT_TRUE(loadWeights(*session, folder / "export").ok());
  ASSERT_TRUE(session->readVariable("w", writableBytesOf(loaded)).ok());
  EXPECT_EQ(trained, loaded);
}

// A process that asks whether a folder is free locks it for a moment.
TEST_F(TrainerTest, ARunOutwaitsAQuestionForItsFolder) {
  int asking = ::open((folder / ".lock").c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_GE(asking, 0);
  ASSERT_EQ(::flock(asking, LOCK_SH), 0);
  EXPECT_FALSE(RunLock::take(folder).ok());
  std::jthread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ::close(asking);
  });
  auto taken = RunLock::take(folder);
  EXPECT_TRUE(taken.ok()) << taken.message();
}
