//===- trainer_test.cpp - Training runs and checkpoints -------------------===//

#include "heddle_rt/checkpoint.h"
#include "heddle_rt/evaluate.h"
#include "heddle_rt/safetensors.h"
#include "heddle_rt/trainer.h"

#include "program.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <csignal>
#include <fstream>
#include <sstream>

#include <sys/resource.h>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace heddle::runtime;
using nlohmann::json;

namespace {

/// The manifest of the hand-written artifact.
json manifest(int devices, int microBatches) {
  using bigram::B, bigram::S, bigram::V;
  json scalar = json::array();
  auto tensor = [](const char *name, const char *type, json shape,
                   json sharding) {
    return json{{"name", name},
                {"type", type},
                {"shape", std::move(shape)},
                {"sharding", std::move(sharding)}};
  };
  json rows = json::array({"dp"}), whole = json::array();
  auto withRole = [](json port, const char *role) {
    port["role"] = role;
    return port;
  };
  json batch = {
      withRole(tensor("targets", "i32", {B, S}, {rows, whole}), "labels"),
      withRole(tensor("tokens", "i32", {B, S}, {rows, whole}), "features")};
  json logits = withRole(
      tensor("logits", "f32", {B, S, V}, {rows, whole, whole}), "output");
  json gradient =
      withRole(tensor("grad.w", "f32", {V, V}, {whole, whole}), "gradient");
  gradient["parameter"] = "w";
  auto value = [&](const char *name, const char *role) {
    return withRole(tensor(name, "f32", scalar, scalar), role);
  };
  json results = {value("learning_rate", "learning_rate"),
                  value("loss", "loss"), value("grad_norm", "gradient_norm")};

  auto variable = [](const char *name, const char *role, const char *type,
                     json shape, json init) {
    json storage = json::array();
    for (size_t i = 0; i < shape.size(); ++i)
      storage.push_back(json::array());
    return json{{"name", name},       {"role", role},
                {"type", type},       {"shape", std::move(shape)},
                {"storage", storage}, {"init", std::move(init)}};
  };
  json zeros = {{"kind", "zeros"}};
  json weight = variable("w", "parameter", "f32", {V, V},
                         {{"kind", "normal"}, {"mean", 0.0}, {"std", 0.5}});
  weight["checkpoint"] = {{"name", "model.bigram.weight"}, {"shape", {V * V}}};

  json programs = json::array(), tables = json::array();
  auto program = [&](const std::string &name, json arguments, json outcome) {
    programs.push_back({{"name", name},
                        {"symbol", name + "_" + std::to_string(devices)},
                        {"arena_bytes", (V * V + 2) * 4},
                        {"events", 0},
                        {"arguments", std::move(arguments)},
                        {"results", std::move(outcome)}});
  };
  auto call = [](const std::string &name, int microBatch, size_t inputs,
                 size_t outputs) {
    json arguments = json::array(), results = json::array();
    for (size_t i = 0; i < inputs; ++i)
      arguments.push_back({{"input", i}});
    for (size_t i = 0; i < outputs; ++i)
      results.push_back({{"output", i}});
    return json{{"call", name},
                {"micro_batch", microBatch},
                {"arguments", arguments},
                {"results", results},
                {"after", json::array()}};
  };
  auto table = [&](const std::string &name, int count, const json &inputs,
                   json outputs, const json &entries) {
    for (json &output : outputs)
      output["of"] = "step";
    json made = {{"name", name},           {"micro_batches", count},
                 {"inputs", inputs},       {"outputs", std::move(outputs)},
                 {"slots", json::array()}, {"lists", {{{"entries", entries}}}}};
    if (parseTableRole(name))
      made["role"] = name;
    tables.push_back(std::move(made));
  };
  json entries = json::array();
  if (microBatches == 1) {
    program("step", batch, results);
    entries.push_back(call("step", 0, 2, 3));
  } else {
    program("accumulate", batch, json::array());
    program("update", json::array(), results);
    for (int i = 0; i < microBatches; ++i)
      entries.push_back(call("accumulate", i, 2, 0));
    entries.push_back(call("update", 0, 0, 3));
    // Each program also by itself.
    table("accumulate", 1, batch, json::array(),
          json::array({call("accumulate", 0, 2, 0)}));
    table("update", 1, json::array(), results,
          json::array({call("update", 0, 0, 3)}));
  }
  table("step", microBatches, batch, results, entries);
  for (auto &[name, outcome] :
       {std::pair<std::string, json>{"evaluate",
                                     {logits, value("count", "label_count"),
                                      value("loss_sum", "loss_sum")}},
        {"gradients", {value("loss", "loss"), logits, gradient}}}) {
    program(name, batch, outcome);
    table(name, 1, batch, outcome,
          json::array({call(name, 0, 2, outcome.size())}));
  }
  return {{"version", 2},
          {"abi", HEDDLE_RT_ABI_VERSION},
          {"code",
           {{{"kind", "cpu"},
             {"library", "program.so"},
             {"triple", "x86_64-unknown-linux-gnu"},
             {"features", json::array()}}}},
          {"rank_sets", {{{"where", json::object()}}}},
          {"mesh", {{{"name", "dp"}, {"size", devices}}}},
          {"groups", {{{"axes", {"dp"}}}}},
          {"variables",
           {weight, variable("steps", "counter", "i64", scalar, zeros),
            variable("gradient.w", "gradient", "f32", {V, V}, zeros),
            variable("loss_sum", "loss", "f32", scalar, zeros),
            variable("count", "loss", "f32", scalar, zeros)}},
          {"programs", programs},
          {"tables", tables},
          {"seed", 5},
          {"model", {{"config", "{\"a\": 1}\n"}}},
          {"plan", json::object()}};
}

/// A batch of the program's shape, but perhaps other sizes.
Batch makeBatch(int64_t rows, int64_t sequence,
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
  void checkpoint(int64_t step, const fs::path &) override {
    checkpoints.push_back(step);
  }
  void note(const std::string &) override {}
};

class TrainerTest : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() /
             ("heddle-trainer-" + std::to_string(::getpid()));
    fs::remove_all(folder);
    fs::create_directories(folder);
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
  void TearDown() override { fs::remove_all(folder); }

  std::unique_ptr<Session> load(int devices = 1, int microBatches = 1) {
    fs::path path = folder / ("artifact-" + std::to_string(devices) + "-" +
                              std::to_string(microBatches));
    fs::create_directories(path);
    fs::copy_file(HEDDLE_TEST_PROGRAM, path / "program.so",
                  fs::copy_options::skip_existing);
    std::ofstream(path / "manifest.json") << manifest(devices, microBatches);
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

  fs::path folder;
  bool stop = false;
};

std::string message(const auto &result) {
  return std::string(result.message());
}

void expectError(const auto &result, const std::string &part) {
  EXPECT_FALSE(result.ok());
  EXPECT_NE(message(result).find(part), std::string::npos) << message(result);
}

} // namespace

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
              "the number of rows a step was 4 and is now 12");
  session = load();
  resumed.heldOutFraction = 0.2;
  expectError(run(*session, resumed, recorder), "the held-out fraction");
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

TEST_F(TrainerTest, EvaluateWritesLossLogitsAndGradients) {
  auto session = load(2);
  std::vector<int32_t> tokens, targets;
  for (int i = 0; i < 3 * bigram::S; ++i) {
    tokens.push_back(i % bigram::V);
    targets.push_back(i % 5 == 0 ? -100 : (3 * i) % bigram::V);
  }
  Batch batch = makeBatch(3, bigram::S, tokens, targets);
  EvaluateOptions options;
  options.output = folder / "out.safetensors";
  options.gradients = true;
  auto result = evaluate(*session, batch, options);
  ASSERT_TRUE(result.ok()) << result.message();
  EXPECT_EQ(result->labels, 14);

  auto reader = safetensors::Reader::open(options.output.string());
  ASSERT_TRUE(reader.ok()) << reader.message();
  const auto *logits = reader->find("logits");
  const auto *gradient = reader->find("grad.model.bigram.weight");
  ASSERT_TRUE(logits && gradient && reader->find("loss"));
  EXPECT_EQ(logits->shape, (std::vector<int64_t>{3, bigram::S, bigram::V}));
  EXPECT_EQ(gradient->shape, (std::vector<int64_t>{256}));

  // Compares the gradient with a difference quotient.
  std::vector<float> weights(256), values(256);
  ASSERT_TRUE(gradient->readF32(0, values).ok());
  ASSERT_TRUE(session->readVariable("w", writableBytesOf(weights)).ok());
  for (int element : {0, 17, 100}) {
    double losses[2];
    for (int side : {0, 1}) {
      std::vector<float> moved = weights;
      moved[element] += side ? 0.01f : -0.01f;
      ASSERT_TRUE(session->writeVariable("w", bytesOf(moved)).ok());
      auto shifted = evaluate(*session, batch, {});
      ASSERT_TRUE(shifted.ok());
      losses[side] = shifted->loss;
    }
    EXPECT_NEAR(values[element], (losses[1] - losses[0]) / 0.02, 1e-4);
  }
}

TEST_F(TrainerTest, EvaluateRefusesBadBatches) {
  auto session = load();
  std::vector<int32_t> tokens(bigram::S, 1), targets(bigram::S, 2);
  auto expectRefused = [&](const std::string &part) {
    expectError(
        evaluate(*session, makeBatch(1, bigram::S, tokens, targets), {}), part);
  };
  EXPECT_TRUE(
      evaluate(*session, makeBatch(1, bigram::S, tokens, targets), {}).ok());
  tokens[4] = bigram::V;
  expectRefused("batch: tokens[0, 4] is 16, beyond the vocabulary of 16");
  tokens[4] = 1;
  targets[2] = -1;
  expectRefused("batch: targets[0, 2] is -1, beyond the vocabulary of 16");
  targets.assign(bigram::S, ignoredLabel);
  expectRefused("batch: expected a target that counts, got 6 that are -100");
  targets.assign(bigram::S, 2);

  Batch batch = makeBatch(1, bigram::S - 1, tokens, targets);
  expectError(evaluate(*session, batch, {}),
              "batch: expected 'targets' of shape [4, 6], for which the "
              "artifact was compiled, got [1, 5]; compile it with --batch 1 "
              "--seq 5");
  batch = makeBatch(1, bigram::S, tokens, targets);
  batch.tensors[0].type = HEDDLE_RT_F32;
  expectError(evaluate(*session, batch, {}),
              "batch: expected 'tokens' as i32 [4, 6], got f32 [1, 6]");
  batch.tensors[0].name = "words";
  expectError(evaluate(*session, batch, {}),
              "batch: expected a tensor 'tokens', i32 [4, 6]");
}

// Labels that a batch lacks are the next tokens; i64 stands for i32.
TEST_F(TrainerTest, ABatchMayLackLabels) {
  auto session = load();
  std::vector<int32_t> tokens, targets;
  for (int i = 0; i < 2 * bigram::S; ++i) {
    tokens.push_back(i * 5 % bigram::V);
    targets.push_back((i + 1) % bigram::S == 0 ? ignoredLabel
                                               : (i + 1) * 5 % bigram::V);
  }
  Batch batch = makeBatch(2, bigram::S, tokens, targets);
  auto expected = evaluate(*session, batch, {});
  ASSERT_TRUE(expected.ok()) << expected.message();
  batch.tensors.pop_back();
  auto result = evaluate(*session, batch, {});
  ASSERT_TRUE(result.ok()) << result.message();
  EXPECT_EQ(result->loss, expected->loss);
  EXPECT_EQ(result->labels, 2 * (bigram::S - 1));

  std::vector<int64_t> wide(tokens.begin(), tokens.end());
  ConstBytes bytes = bytesOf(wide);
  batch.tensors[0] = {
      "tokens", HEDDLE_RT_I64, {2, bigram::S}, {bytes.begin(), bytes.end()}};
  result = evaluate(*session, batch, {});
  ASSERT_TRUE(result.ok()) << result.message();
  EXPECT_EQ(result->loss, expected->loss);
  wide[3] = int64_t(1) << 40;
  std::memcpy(batch.tensors[0].data.data(), wide.data(), bytes.size());
  expectError(evaluate(*session, batch, {}),
              "batch: tensor 'tokens': element 3 is 1099511627776, which is "
              "no token");
}
