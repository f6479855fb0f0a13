//===- TableTest.cpp - Runs tables ----------------------------------------===//

#include "../Session/TestArtifact.h"
#include "TestTables.h"
#include "heddle_rt/session.h"
#include "support/Message.h"

#include <gtest/gtest.h>

using namespace heddle::runtime;
using Json = nlohmann::json;

namespace {

std::unique_ptr<Session> loadOnOneCore(const TestArtifact &artifact,
                                       SessionOptions options = {}) {
  options.coresPerDevice = 1;
  auto session = Session::load(artifact.path, options);
  EXPECT_TRUE(session.ok()) << session.message();
  return session.ok() ? std::move(*session) : nullptr;
}

float readScalar(const Session &session, const char *name) {
  float value = 0;
  Status status = session.readVariable(name, writableBytesOf(value));
  EXPECT_TRUE(status.ok()) << status.message();
  return value;
}

/// Runs steps of the two stages, and expects what the serial program gives:
/// z = w1 w0 x, and the gradients of x, w0 and w1, which the steps add up.
void expectTraining(Session &session, int steps) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> dz = {1, 1, 10, 10, 100, 100, 1000, 1000};
  std::vector<float> expectedZ, expectedDx;
  float g0 = 0, g1 = 0;
  for (size_t i = 0; i < 8; ++i) {
    expectedZ.push_back(6 * x[i]);
    expectedDx.push_back(6 * dz[i]);
    g0 += 3 * dz[i] * x[i];
    g1 += 2 * x[i] * dz[i];
  }
  for (int step = 1; step <= steps; ++step) {
    std::vector<float> z(8), dx(8);
    Status status = session.run("step", {bytesOf(x), bytesOf(dz)},
                                {writableBytesOf(z), writableBytesOf(dx)});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(z, expectedZ);
    EXPECT_EQ(dx, expectedDx);
    EXPECT_EQ(readScalar(session, "g0"), float(step) * g0);
    EXPECT_EQ(readScalar(session, "g1"), float(step) * g1);
  }
}

TEST(Table, RunsTwoStages) {
  TestArtifact artifact(pipelineManifest());
  std::unique_ptr<Session> session = loadOnOneCore(artifact);
  ASSERT_TRUE(session);
  expectTraining(*session, 20);
  // Each stage has its own weight and gradient, of a line of 64 bytes each.
  for (const DeviceMemory &memory : session->memory()) {
    EXPECT_EQ(memory.parameters, 64u);
    EXPECT_EQ(memory.gradients, 64u);
  }
  EXPECT_TRUE(session->checkReplicas().ok());
}

TEST(Table, RunsTwoStagesInterleaved) {
  TestArtifact artifact(interleavedManifest());
  using Order = StreamOrder::Kind;
  for (uint64_t seed = 0; seed < 10; ++seed)
    for (Order kind :
         {Order::Natural, Order::Earliest, Order::Latest, Order::Random}) {
      if (kind != Order::Random && seed > 0)
        continue; // the seed is of random orders
      SessionOptions options;
      options.streamOrder = StreamOrder{kind, seed};
      std::unique_ptr<Session> session = loadOnOneCore(artifact, options);
      ASSERT_TRUE(session);
      expectTraining(*session, 5);
    }
}

// Each run has its own inputs and outputs, although the next run is under way
// when the host reads them.
TEST(Table, RunsWithoutABarrier) {
  Json manifest = interleavedManifest();
  manifest["tables"][0]["barrier"] = "none";
  TestArtifact artifact(manifest);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SessionOptions options;
    if (seed > 0)
      options.streamOrder = StreamOrder{StreamOrder::Kind::Random, seed};
    std::unique_ptr<Session> session = loadOnOneCore(artifact, options);
    ASSERT_TRUE(session);
    expectTraining(*session, 2);
    std::vector<float> x(8), dz(8), z(8), dx(8);
    std::vector<ConstBytes> inputs = {bytesOf(x), bytesOf(dz)};
    std::vector<Bytes> outputs = {writableBytesOf(z), writableBytesOf(dx)};
    int64_t staged = 0, finished = 0;
    auto stage = [&](int64_t run) -> Expected<bool> {
      EXPECT_EQ(run, staged++);
      for (size_t i = 0; i < 8; ++i) {
        x[i] = float(10 * run + int64_t(i));
        dz[i] = -x[i];
      }
      return run < 7;
    };
    auto finish = [&](int64_t run) -> Status {
      EXPECT_EQ(run, finished++);
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(z[i], 6 * float(10 * run + int64_t(i)));
        EXPECT_EQ(dx[i], -z[i]);
      }
      return Status::success();
    };
    Status status = session->runMany(0, 20, inputs, outputs, stage, finish);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(finished, 7);
    EXPECT_EQ(staged, 8);
    // An error of the host ends the sequence, and the session stays whole.
    staged = finished = 0;
    status = session->runMany(0, 20, inputs, outputs, stage, [&](int64_t run) {
      return run < 3 ? finish(run) : Status::error("enough");
    });
    EXPECT_EQ(status.message(), "enough");
    EXPECT_EQ(finished, 3);
    staged = finished = 0;
    status = session->runMany(0, 2, inputs, outputs, stage, finish);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(finished, 2);
  }
}

TEST(Table, EachRunWithoutABarrierHasItsTimes) {
  Json manifest = interleavedManifest();
  manifest["tables"][0]["barrier"] = "none";
  TestArtifact artifact(manifest);
  std::unique_ptr<Session> session = loadOnOneCore(artifact);
  ASSERT_TRUE(session);
  auto countKernels = [&] {
    return session->times()[0].calls[size_t(WorkKind::Kernel)];
  };
  std::vector<int64_t> numbers(3);
  ASSERT_TRUE(session->run("tens", {}, {writableBytesOf(numbers)}).ok());
  EXPECT_EQ(countKernels(), 3);
  // A run has one kernel in a forward call and two in a backward call. It does
  // not include calls from before the sequence.
  std::vector<float> x(8), dz(8), z(8), dx(8);
  std::vector<ConstBytes> inputs = {bytesOf(x), bytesOf(dz)};
  std::vector<Bytes> outputs = {writableBytesOf(z), writableBytesOf(dx)};
  Status status = session->runMany(
      0, 5, inputs, outputs, [](int64_t) { return Expected<bool>(true); },
      [&](int64_t run) {
        EXPECT_EQ(countKernels(), 3 * microBatches) << run;
        return Status::success();
      });
  ASSERT_TRUE(status.ok()) << status.message();
  // Afterwards, times are those since the last reset.
  EXPECT_EQ(countKernels(), 3 + 5 * 3 * microBatches);
  EXPECT_GT(session->times()[0].total, 0);
  ASSERT_TRUE(session->run("step", inputs, outputs).ok());
  EXPECT_EQ(countKernels(), 3 + 6 * 3 * microBatches);
  session->resetTimes();
  ASSERT_TRUE(session->run("step", inputs, outputs).ok());
  EXPECT_EQ(countKernels(), 3 * microBatches);
}

TEST(Table, RunsThatOverlapNeedATableWithoutABarrier) {
  TestArtifact artifact(pipelineManifest());
  std::unique_ptr<Session> session = loadOnOneCore(artifact);
  ASSERT_TRUE(session);
  std::vector<float> x(8), dz(8), z(8), dx(8);
  std::vector<ConstBytes> inputs = {bytesOf(x), bytesOf(dz)};
  std::vector<Bytes> outputs = {writableBytesOf(z), writableBytesOf(dx)};
  auto stage = [](int64_t) -> Expected<bool> {
    ADD_FAILURE() << "a run was staged";
    return true;
  };
  auto finish = [](int64_t) { return Status::success(); };
  EXPECT_EQ(session->runMany(0, 2, inputs, outputs, stage, finish).message(),
            "expected a program without a barrier, got 0");
  EXPECT_EQ(session->runMany(99, 2, inputs, outputs, stage, finish).message(),
            "expected a program without a barrier, got 99");
}

TEST(Table, ABarrierIsOfRunsOrNone) {
  Json manifest = pipelineManifest();
  for (const char *barrier : {"run", "none"}) {
    manifest["tables"][0]["barrier"] = barrier;
    Expected<Manifest> read = parseManifest(manifest.dump(), "m");
    ASSERT_TRUE(read.ok()) << read.message();
    EXPECT_EQ(read->tables[0].hasBarrier, barrier == std::string("run"));
  }
  manifest["tables"][0]["barrier"] = "step";
  EXPECT_EQ(parseManifest(manifest.dump(), "m").message(),
            "m: tables[0].barrier: expected run or none, got \"step\"");
}

// One device fails in the third run. The others, and the host, end as well.
TEST(Table, AFailureEndsRunsWithoutABarrier) {
  Json manifest = testManifest();
  Json fail = manifest["programs"][1];
  ASSERT_EQ(fail["name"], "fail");
  manifest["tables"] = list(
      Json{{"name", "failing"},
           {"micro_batches", 1},
           {"barrier", "none"},
           {"inputs", fail["arguments"]},
           {"outputs", Json::array()},
           {"slots", Json::array()},
           {"lists", list(Json{{"entries", list(call("fail", 0, list(input(0)),
                                                     Json::array()))}})}});
  TestArtifact artifact(manifest);
  for (int32_t failing = 0; failing < 4; ++failing) {
    std::unique_ptr<Session> session = loadOnOneCore(artifact);
    ASSERT_TRUE(session);
    int32_t who = -1;
    int64_t finished = 0;
    std::vector<ConstBytes> inputs = {bytesOf(who)};
    auto run = [&] {
      return session->runMany(
          0, 20, inputs, {},
          [&](int64_t run) -> Expected<bool> {
            who = run == 2 ? failing : -1;
            return true;
          },
          [&](int64_t run) {
            EXPECT_EQ(run, finished++);
            return Status::success();
          });
    };
    std::string expected = "device " + std::to_string(failing) +
                           ": matmul: expected m, n and k of at least 1, got "
                           "0, 0, 0";
    EXPECT_EQ(run().message().substr(0, expected.size()), expected);
    EXPECT_LE(finished, 2);
    // The session stays broken, with the same cause.
    finished = 0;
    EXPECT_EQ(run().message().substr(0, expected.size()), expected);
    EXPECT_EQ(finished, 0);
  }
}

TEST(Table, PassesTheNumberOfTheMicroBatch) {
  TestArtifact artifact(pipelineManifest());
  std::unique_ptr<Session> session = loadOnOneCore(artifact);
  ASSERT_TRUE(session);
  std::vector<int64_t> numbers(3);
  Status status = session->run("tens", {}, {writableBytesOf(numbers)});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(numbers, (std::vector<int64_t>{0, 10, 20}));
}

TEST(Table, ACallOverwritesTheSlotThatItReads) {
  TestArtifact artifact(pipelineManifest());
  std::unique_ptr<Session> session = loadOnOneCore(artifact);
  ASSERT_TRUE(session);
  std::vector<int64_t> numbers(3);
  Status status = session->run("thousands", {}, {writableBytesOf(numbers)});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(numbers, (std::vector<int64_t>{0, 1000, 2000}));
}

TEST(Table, AProcessHasSomeOfTheRanks) {
  Json manifest = pipelineManifest();
  SessionOptions options;
  options.localRanks = {1};
  {
    TestArtifact artifact(manifest);
    EXPECT_EQ(
        Session::load(artifact.path, options).message(),
        "rank 1 of this process communicates with rank 0 of another: "
        "expected all ranks in one process, or processes that have joined "
        "a job");
    SessionOptions wrong;
    wrong.localRanks = {0, 2};
    EXPECT_EQ(Session::load(artifact.path, wrong).message(),
              "expected local ranks below 2, got 2");
    wrong.localRanks = {0, 0};
    EXPECT_EQ(Session::load(artifact.path, wrong).message(),
              "expected each local rank once, got 0 twice");
  }
  manifest["groups"] = Json::array();
  manifest["tables"].erase(0);
  TestArtifact artifact(manifest);
  std::unique_ptr<Session> session = loadOnOneCore(artifact, options);
  ASSERT_TRUE(session);
  EXPECT_EQ(session->numDevices(), 1);
  EXPECT_EQ(readScalar(*session, "w1"), 3);
  float value = 0;
  EXPECT_EQ(session->readVariable("w0", writableBytesOf(value)).message(),
            "w0: no rank of this process has element 0");
  std::vector<int64_t> numbers(3);
  ASSERT_TRUE(session->run("tens", {}, {writableBytesOf(numbers)}).ok());
  EXPECT_EQ(numbers[2], 20);
}

TEST(Table, SendsDoNotWaitForReceives) {
  const std::vector<float> x = {1, 10};
  // Both ranks send before they receive, on one stream. On two streams, they
  // may receive first.
  for (const Json &manifest :
       {exchangeManifest("src", {1, 1}), exchangeManifest("src", {1, 2}),
        exchangeManifest("rsc", {1, 2})}) {
    TestArtifact artifact(manifest);
    std::unique_ptr<Session> session = loadOnOneCore(artifact);
    ASSERT_TRUE(session);
    std::vector<float> z0(2), z1(2);
    Status status = session->run("exchange", {bytesOf(x)},
                                 {writableBytesOf(z0), writableBytesOf(z1)});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(z0, (std::vector<float>{6, 60}));
    EXPECT_EQ(z1, z0);
  }
}

} // namespace
