//===- SessionTest.cpp - Loading and running artifacts --------------------===//

#include "heddle_rt/session.h"
#include "TestArtifact.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

using namespace heddle::runtime;
using Json = nlohmann::json;

namespace {

std::unique_ptr<Session> load(const TestArtifact &artifact,
                              const SessionOptions &options = {}) {
  Expected<std::unique_ptr<Session>> session =
      Session::load(artifact.path, options);
  EXPECT_TRUE(session.ok()) << session.message();
  return session.ok() ? std::move(*session) : nullptr;
}

std::vector<float> read(const Session &session, const char *name,
                        size_t count) {
  std::vector<float> values(count);
  Status status = session.readVariable(name, writableBytesOf(values));
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

TEST(Session, RunsAProgramOnAllDevices) {
  TestArtifact artifact;
  std::unique_ptr<Session> session = load(artifact);
  ASSERT_TRUE(session);
  EXPECT_EQ(session->numDevices(), 4);
  std::vector<float> before = read(*session, "weight", 30);
  const std::vector<float> x = {1, 10, 2, 20, 100, 1000, 200, 2000};
  for (int step = 1; step <= 3; ++step) {
    float sum = 0;
    std::vector<int32_t> who(4);
    Status status = session->run("step", {bytesOf(x)},
                                 {writableBytesOf(sum), writableBytesOf(who)});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sum, 3333);
    EXPECT_EQ(who, (std::vector<int32_t>{0, 1, 10, 11}));
  }
  int64_t steps = 0;
  ASSERT_TRUE(session->readVariable("steps", writableBytesOf(steps)).ok());
  EXPECT_EQ(steps, 10);
  std::vector<float> after = read(*session, "weight", 30);
  for (size_t i = 0; i < 30; ++i)
    EXPECT_EQ(after[i], 8 * before[i]);
  Status replicas = session->checkReplicas();
  EXPECT_TRUE(replicas.ok()) << replicas.message();
  EXPECT_EQ(session->times()[2].calls[size_t(WorkKind::Kernel)], 3);
  EXPECT_EQ(session->times()[2].calls[size_t(WorkKind::Collective)], 3);
  EXPECT_GT(session->times()[2].total, 0);
  session->resetTimes();
  EXPECT_EQ(session->times()[2].total, 0);
  // The weight (3 x 3 of f32) and the counter (one i64) take a line of 64 bytes
  // each.
  DeviceMemory memory = session->memory()[0];
  EXPECT_EQ(memory.parameters, 64u);
  EXPECT_EQ(memory.counters, 64u);
  EXPECT_EQ(memory.arena, 256u);
}

TEST(Session, InitializationDoesNotDependOnTheSharding) {
  std::vector<std::vector<float>> values;
  for (auto [dp, tp] : {std::pair{1, 1}, {2, 2}, {4, 3}, {1, 7}}) {
    Json manifest = testManifest();
    manifest["mesh"][0]["size"] = dp;
    manifest["mesh"][1]["size"] = tp;
    TestArtifact artifact(manifest);
    SessionOptions options;
    options.coresPerDevice = dp;
    values.push_back(read(*load(artifact, options), "weight", 30));
    EXPECT_EQ(values.front(), values.back());
    if (dp == 1 && tp == 1) {
      options.seed = 4;
      EXPECT_NE(values.front(), read(*load(artifact, options), "weight", 30));
    }
  }
}

TEST(Session, SlicesAreSeenAsTheirTensor) {
  TestArtifact whole, sliced(slicedManifest());
  std::vector<float> expected = read(*load(whole), "weight", 30);
  std::unique_ptr<Session> session = load(sliced);
  EXPECT_EQ(read(*session, "weight", 30), expected);
  std::vector<float> first = read(*session, "weight.slice0", 20);
  EXPECT_EQ(first[4], expected[6]);

  // Reads and writes every range of the tensor, across slices and rows.
  std::vector<float> all(30);
  std::iota(all.begin(), all.end(), 1.0f);
  ASSERT_TRUE(session->writeVariable("weight", bytesOf(all)).ok());
  for (int64_t begin = 0; begin < 30; ++begin)
    for (int64_t count = 1; begin + count <= 30; count += 4) {
      std::vector<float> some(size_t(count), -1.0f);
      ASSERT_TRUE(session->writeTensor(0, begin, count, bytesOf(some)).ok());
      std::copy(some.begin(), some.end(), all.begin() + begin);
      EXPECT_EQ(read(*session, "weight", 30), all);
      std::iota(all.begin(), all.end(), float(begin));
      ASSERT_TRUE(session->writeTensor(0, 0, 30, bytesOf(all)).ok());
      ASSERT_TRUE(
          session->readTensor(0, begin, count, writableBytesOf(some)).ok());
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + begin));
    }
  Status status = session->checkReplicas();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(session->readTensor(0, 29, 2, {}).message(),
            "weight: expected elements within [0, 30), got 2 from 29");
  EXPECT_EQ(session->readTensor(2, 0, 0, {}).message(),
            "expected a tensor below 2, got 2");
}

TEST(Session, NormalInitializationHasItsMoments) {
  Json manifest = testManifest();
  manifest["variables"][0]["shape"] = {500, 400};
  manifest["variables"][0].erase("checkpoint");
  TestArtifact artifact(manifest);
  std::vector<float> x = read(*load(artifact), "weight", 200'000);
  double mean = 0, square = 0, fourth = 0, neighbours = 0;
  for (float value : x)
    mean += value / double(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    double z = (x[i] - 0.5) / 0.02;
    square += z * z / double(x.size());
    fourth += z * z * z * z / double(x.size());
    if (i)
      neighbours += z * (x[i - 1] - 0.5) / 0.02 / double(x.size());
  }
  EXPECT_NEAR(mean, 0.5, 0.02 * 4 / std::sqrt(2e5));
  EXPECT_NEAR(square, 1, 0.02);
  EXPECT_NEAR(fourth, 3, 0.15);
  EXPECT_NEAR(neighbours, 0, 0.01);
}

TEST(Session, HostAccessByRangesAndPadding) {
  TestArtifact artifact;
  SessionOptions options;
  options.initializeVariables = false;
  std::unique_ptr<Session> session = load(artifact, options);
  EXPECT_EQ(read(*session, "weight", 30), std::vector<float>(30, 0.0f));
  std::vector<float> all(30);
  std::iota(all.begin(), all.end(), 1.0f);
  ASSERT_TRUE(session->writeVariable("weight", bytesOf(all)).ok());
  EXPECT_EQ(read(*session, "weight", 30), all);
  std::vector<float> rows(12);
  ASSERT_TRUE(session->readRows(0, 2, 2, writableBytesOf(rows)).ok());
  EXPECT_EQ(rows, std::vector<float>(all.begin() + 12, all.begin() + 24));
  const std::vector<float> some = {-1, -2, -3, -4, -5};
  ASSERT_TRUE(session->writeElements(0, 4, 5, bytesOf(some)).ok());
  std::copy(some.begin(), some.end(), all.begin() + 4);
  EXPECT_EQ(read(*session, "weight", 30), all);
  Status status = session->checkReplicas();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(session->readElements(0, 29, 2, {}).message(),
            "weight: expected elements within [0, 30), got 2 from 29");
  EXPECT_EQ(session->writeVariable("weight", bytesOf(some)).message(),
            "weight: expected a host buffer of 120 bytes, got 20");
  EXPECT_EQ(session->readVariable("bias", {}).message(),
            "the model has no variable bias");
}

TEST(Session, RefusesManyDevicesAtOnce) {
  // Making the groups for this number of ranks would take minutes.
  Json manifest = testManifest();
  manifest["mesh"][0]["size"] = 65536;
  manifest["mesh"][1]["size"] = 1;
  TestArtifact artifact(manifest);
  EXPECT_EQ(Session::load(artifact.path).message().find("expected at most "),
            0u);
}

TEST(Session, RefusesWhatItCannotLoad) {
  auto messageOf = [](const Json &manifest) {
    TestArtifact artifact(manifest);
    Expected<std::unique_ptr<Session>> session = Session::load(artifact.path);
    EXPECT_FALSE(session.ok());
    std::string message(session.message());
    size_t at = message.find(artifact.path.string());
    if (at != std::string::npos)
      message.replace(at, artifact.path.string().size(), "DIR");
    return message;
  };
  Json manifest = testManifest();
  manifest["programs"][1]["symbol"] = "heddle_program_evaluate";
  EXPECT_EQ(messageOf(manifest),
            "DIR/program.so: expected the symbol heddle_program_evaluate of "
            "program fail, found none");
  manifest = testManifest();
  manifest["variables"][0].erase("shape");
  EXPECT_EQ(messageOf(manifest), "DIR/manifest.json: variables[0].shape: "
                                 "expected a value, got nothing");
  manifest = testManifest();
  manifest["code"][0]["features"] = {"sse2", "xop", "amx-fp16"};
  EXPECT_NE(messageOf(manifest).find("which this machine lacks"),
            std::string::npos);
  manifest = testManifest();
  manifest["code"][0]["library"] = "missing.so";
  EXPECT_NE(messageOf(manifest).find("missing.so"), std::string::npos);
  manifest = testManifest();
  manifest["code"][0]["kind"] = "tpu";
  EXPECT_EQ(messageOf(manifest),
            "the model was compiled for devices of kind tpu, none of which "
            "this runtime serves: compile it for cpu or cuda");
  EXPECT_NE(Session::load("/nonexistent").message().find("manifest"),
            std::string::npos);
}

TEST(Session, ChecksWhatACallerPasses) {
  TestArtifact artifact;
  std::unique_ptr<Session> session = load(artifact);
  float x[8] = {}, sum = 0;
  EXPECT_EQ(session->run("train", {}, {}).message(),
            "the artifact has no program train, expected one of step, fail, "
            "hang");
  EXPECT_EQ(session->run("step", {}, {}).message(),
            "program step: expected 1 arguments, got 0");
  EXPECT_EQ(session->run("step", {bytesOf(sum)}, {{}, {}}).message(),
            "program step: expected 32 bytes for argument x, got 4");
  EXPECT_EQ(
      session->run("step", {bytesOf(x)}, {writableBytesOf(x), {}}).message(),
      "program step: expected 4 bytes for result sum, got 32");
  EXPECT_TRUE(session->run("step", {bytesOf(x)}, {{}, {}}).ok());
}

TEST(Session, AFailingDeviceIsNamed) {
  TestArtifact artifact;
  for (int32_t who = 0; who < 4; ++who) {
    std::unique_ptr<Session> session = load(artifact);
    int32_t nobody = -1;
    ASSERT_TRUE(session->run("fail", {bytesOf(nobody)}, {}).ok());
    std::string expected = "device " + std::to_string(who) +
                           ": matmul: expected m, n and k of at least 1, got "
                           "0, 0, 0 (for h.0.mlp, gradient, in program 'fail')";
    EXPECT_EQ(session->run("fail", {bytesOf(who)}, {}).message(), expected);
    // The session stays broken, with the same cause.
    EXPECT_EQ(session->run("fail", {bytesOf(nobody)}, {}).message(), expected);
  }
}

TEST(Session, AHungDeviceIsNamed) {
  TestArtifact artifact;
  SessionOptions options;
  options.collectiveTimeout = std::chrono::milliseconds(200);
  std::unique_ptr<Session> session = load(artifact, options);
  const std::vector<int32_t> late = {2, 600};
  std::string message(session->run("hang", {bytesOf(late)}, {}).message());
  EXPECT_NE(message.find("device 2 did not arrive at all_reduce within 0.2 s"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("(for loss, in program 'hang')"), std::string::npos)
      << message;
  EXPECT_EQ(message.find("does not return"), std::string::npos);
  // A device that does not return for long is abandoned.
  session = load(artifact, options);
  const std::vector<int32_t> gone = {1, 5000};
  message = session->run("hang", {bytesOf(gone)}, {}).message();
  EXPECT_NE(message.find("device 1 did not arrive"), std::string::npos);
  EXPECT_NE(message.find("device 1 does not return"), std::string::npos);
}

TEST(Session, TheTraceNamesTheCallsOfTheLastRuns) {
  TestArtifact artifact;
  std::unique_ptr<Session> session = load(artifact);
  std::filesystem::path file = artifact.path / "trace.json";
  EXPECT_NE(session->writeTrace(file).message(), "");
  session->startTrace(2);
  float x[8] = {};
  for (int step = 0; step < 3; ++step)
    ASSERT_TRUE(session->run("step", {bytesOf(x)}, {{}, {}}).ok());
  ASSERT_TRUE(session->writeTrace(file).ok());
  std::ifstream stream(file);
  Json trace = Json::parse(stream, nullptr, false);
  ASSERT_FALSE(trace.is_discarded());
  int launches = 0, collectives = 0, runs = 0;
  for (const Json &event : trace["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    const Json &arguments = event["args"];
    EXPECT_EQ(arguments["table"], "step");
    EXPECT_GE(arguments["run"], 1);
    EXPECT_GE(event["ts"], 0);
    if (event["cat"] == "run") {
      ++runs;
      continue;
    }
    EXPECT_EQ(arguments["program"], "step");
    if (event["name"] == "weight") {
      ++launches;
      EXPECT_EQ(event["cat"], "compute");
      EXPECT_EQ(arguments["call"], "doubleRows");
      EXPECT_EQ(arguments["index"], 0);
    } else if (event["name"] == "x and 2 more") {
      ++collectives;
      EXPECT_EQ(event["cat"], "communication");
      EXPECT_EQ(arguments["axes"], "dp");
      EXPECT_EQ(arguments["index"], 1);
    }
  }
  EXPECT_EQ(launches, 8);
  EXPECT_EQ(collectives, 8);
  EXPECT_EQ(runs, 8);
  EXPECT_NE(session->writeTrace("/nonexistent/trace.json").message(), "");
}

} // namespace
