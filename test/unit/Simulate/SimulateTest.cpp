//===- SimulateTest.cpp - Programs whose times are known ------------------===//

#include "Programs.h"
#include "mlir/IR/Diagnostics.h"
#include <limits>

using namespace mlir;
using namespace heddle;

namespace {

/// Expects the start and end of the call that serves `name`, in milliseconds.
void expectTimes(const Simulation &simulation, StringRef name, double start,
                 double end) {
  const SimulatedCall &call = simulation.calls[find(simulation, name)];
  EXPECT_NEAR(call.start * 1e3, start, 1e-9) << name.str();
  EXPECT_NEAR(call.end * 1e3, end, 1e-9) << name.str();
}

std::string program(std::string head, std::string body,
                    std::string mesh = "\"tp\"=2") {
  return "heddle.mesh @mesh <[" + mesh + "]>\nrt.program @" + head + " {\n" +
         body + "}\n";
}

TEST(Simulate, ACollectiveRunsBesideAProduct) {
  Programs programs(program("p arena(200000) streams(2)",
                            product("a", 50, 4, 0) + record(0) + wait(0, 1) +
                                allReduce("sum", 1, 0, "tp") + record(1, 1) +
                                product("b", 25, 4, 1) + wait(1) +
                                product("c", 50, 0, 2)));
  Simulation s = *programs.run(makeRoundCluster(2));
  expectTimes(s, "a", 0, 1);
  expectTimes(s, "sum", 1, 2);
  expectTimes(s, "b", 1, 1.5);
  expectTimes(s, "c", 2, 3);
  EXPECT_NEAR(s.seconds, 3e-3, 1e-12);
  EXPECT_NEAR(s.exposed, 0.5e-3, 1e-12);
  const SimulatedCall &sum = s.calls[find(s, "sum")];
  EXPECT_TRUE(sum.communicates);
  EXPECT_EQ(sum.bytes, 40000);
  EXPECT_NEAR(sum.hidden, 0.5e-3, 1e-12);
  EXPECT_NEAR(sum.exposed, 0.5e-3, 1e-12);
  EXPECT_EQ(sum.waitedFor, find(s, "a"));
  EXPECT_EQ(sum.waitedBy, find(s, "c"));
  EXPECT_NEAR(s.bounds.compute, 2.5e-3, 1e-12);
  EXPECT_NEAR(s.bounds.criticalPath.value(), 3e-3, 1e-12); // a, sum, c
  ASSERT_EQ(s.bounds.links.size(), 1u);
  EXPECT_NEAR(s.bounds.links[0], 1e-3, 1e-12);
  EXPECT_EQ(s.bounds.getName(makeRoundCluster(2)), "critical path");
  ASSERT_EQ(s.streams.size(), 2u);
  EXPECT_NEAR(s.streams[0].computing, 2.5e-3, 1e-12);
  EXPECT_NEAR(s.streams[1].communicating, 1e-3, 1e-12);
}

TEST(Simulate, ACollectiveOnTheComputeStreamIsExposed) {
  Programs programs(program(
      "p arena(200000)", product("a", 50, 4, 0) + allReduce("sum", 0, 0, "tp") +
                             product("b", 25, 4, 1)));
  Simulation s = *programs.run(makeRoundCluster(2));
  EXPECT_NEAR(s.seconds, 2.5e-3, 1e-12);
  EXPECT_NEAR(s.exposed, 1e-3, 1e-12);
  // The last product reads nothing that the others write.
  EXPECT_NEAR(s.bounds.criticalPath.value(), 2e-3, 1e-12);
}

TEST(Simulate, CollectivesShareLinks) {
  // Both rings send one message from every device. The smaller one has half of
  // the link for 1 ms; the larger one then has the other half of its bytes
  // left, and the whole link.
  Programs programs(program(
      "p arena(200000) streams(3)",
      record(0) + wait(0, 1) + allReduce("large", 1, 0, "tp") + record(1, 1) +
          wait(0, 2) + allReduce("small", 2, 1, "dp", 5000) + record(2, 2) +
          wait(1) + wait(2),
      "\"dp\"=2, \"tp\"=2"));
  Simulation s = *programs.run(makeRoundCluster(4));
  expectTimes(s, "small", 0, 1);
  expectTimes(s, "large", 0, 1.5);
  // The compute stream waits for the larger one, which hides the smaller one.
  EXPECT_NEAR(s.calls[find(s, "large")].exposed, 1.5e-3, 1e-12);
  EXPECT_NEAR(s.calls[find(s, "small")].hidden, 1e-3, 1e-12);
}

TEST(Simulate, CollectivesOfDifferentLevelsShareNothing) {
  Cluster cluster = makeRoundCluster(2);
  cluster.levels.push_back({"far", 2, 0, 40e6, 1});
  Programs programs(program(
      "p arena(200000) streams(3)",
      record(0) + wait(0, 1) + allReduce("near", 1, 0, "tp", 5000) +
          record(1, 1) + wait(0, 2) + allReduce("far", 2, 1, "dp", 5000) +
          record(2, 2) + wait(1) + wait(2),
      "\"dp\"=2, \"tp\"=2"));
  Simulation s = *programs.run(cluster);
  expectTimes(s, "near", 0, 0.5);
  // Two devices of a unit share its link.
  expectTimes(s, "far", 0, 1);
  EXPECT_NEAR(s.bounds.links[0], 0.5e-3, 1e-12);
  EXPECT_NEAR(s.bounds.links[1], 1e-3, 1e-12);
}

TEST(Simulate, StreamsRunInOrderAndEventsOrderThem) {
  // The second collective of stream 1 is issued before the product that it
  // waits for has ended, and runs behind the first one.
  Programs programs(
      program("p arena(200000) streams(2)",
              record(0) + wait(0, 1) + allReduce("first", 1, 0, "tp") +
                  product("a", 10, 4, 1) + record(1) + wait(1, 1) +
                  allReduce("second", 1, 1, "tp", 5000) + record(2, 1) +
                  product("b", 10, 4, 2) + wait(2) + product("c", 50, 1, 3)));
  Simulation s = *programs.run(makeRoundCluster(2));
  expectTimes(s, "first", 0, 1);
  expectTimes(s, "second", 1, 1.5);
  expectTimes(s, "b", 0.2, 0.4);
  expectTimes(s, "c", 1.5, 2.5);
  EXPECT_EQ(s.calls[find(s, "second")].waitedFor, find(s, "first"));
  // The compute stream waits for the call that keeps stream 1 busy.
  EXPECT_NEAR(s.calls[find(s, "first")].exposed, 0.6e-3, 1e-12);
  EXPECT_NEAR(s.calls[find(s, "second")].exposed, 0.5e-3, 1e-12);
}

TEST(Simulate, ALoopCountsItsIterations) {
  // The host waits for the collective in flight before it reads the condition.
  Programs programs(program(
      "p arena(200064) streams(2)",
      record(0) + wait(0, 1) + "rt.while arena[200000 : i1] before {\n" +
          product("test", 50, 4, 0) + "} after {\n" +
          product("body", 25, 4, 1) + record(1) + wait(1, 1) +
          allReduce("sum", 1, 2, "tp", 20000) + "}\n" +
          product("end", 50, 4, 3)));
  SimulateOptions options;
  options.loopIterations = 3;
  Simulation s = *programs.run(makeRoundCluster(2), "", options);
  // 1 + 3 (0.5 + max(2, 1)) + 1
  EXPECT_NEAR(s.seconds, 9.5e-3, 1e-12);
  EXPECT_NEAR(s.exposed, 3e-3, 1e-12);
  EXPECT_TRUE(s.hasLoops);
  expectTimes(s, "body", 1, 1.5);
  expectTimes(s, "end", 8.5, 9.5);
  EXPECT_EQ(s.calls[find(s, "body")].repeat, 3);
}

static std::string microBatches() {
  return "module attributes {heddle.micro_batches = 4 : i64} {\n"
         "heddle.mesh @mesh <[\"tp\"=2]>\n"
         "rt.program @accumulate arena(200000) {\n" +
         product("a", 50, 4, 0) + allReduce("sum", 0, 0, "tp") +
         "}\nrt.program @update arena(200000) {\n" + product("u", 25, 4, 0) +
         "}\n}";
}

TEST(Simulate, AStepHasAllMicroBatches) {
  Programs programs(microBatches());
  Simulation s = *programs.run(makeRoundCluster(2));
  EXPECT_NEAR(s.seconds, 8.5e-3, 1e-12);
  EXPECT_NEAR(s.exposed, 4e-3, 1e-12);
  EXPECT_NEAR(s.bounds.compute, 4.5e-3, 1e-12);
  expectTimes(s, "u", 8, 8.5);
  // The list has the call of a micro-batch once, and how often it repeats.
  std::vector<CallList> lists = llvm::cantFail(getEntry(*programs.module, ""));
  EXPECT_EQ(lists[0].calls[0].repeat, 4);
  EXPECT_NEAR(programs.run(makeRoundCluster(2), "update")->seconds, 0.5e-3,
              1e-12);
}

TEST(Simulate, NamesOfEntriesAreChecked) {
  Programs programs(microBatches());
  llvm::Expected<std::vector<CallList>> lists =
      getEntry(*programs.module, "none");
  EXPECT_EQ(llvm::toString(lists.takeError()),
            "expected the name of a program, one of accumulate, update, got "
            "'none'");
}

TEST(Simulate, MemoryIsThatOfTheManifest) {
  // The most bytes are live while b runs: what b writes, and the half of a's
  // result that b reads. Then c overwrites a's result, which nothing reads any
  // more.
  Programs programs(
      "heddle.variable @w : tensor<100xf32> parameter init(zeros)\n"
      "rt.program @p arena(200000) results [#rt.port<\"y\", tensor<f32>>] {\n" +
      product("a", 50, 4, 0) + product("b", 50, 0, 1) + product("c", 50, 1, 0) +
      "rt.fill_zero result 0[0 : f32] serves <activation [\"d\"]>\n}\n");
  Simulation s = *programs.run(makeRoundCluster(1));
  DeviceMemoryPlan plan = getDeviceMemoryPlan(*programs.module);
  EXPECT_EQ(s.memory.plan.total(), plan.total());
  EXPECT_EQ(plan.total(), 448 + 200000 + 64);
  EXPECT_EQ(s.memory.peak, 448 + 64 + 60000);
  EXPECT_NEAR(s.memory.peakTime, 1e-3, 1e-12);
  ASSERT_EQ(s.memory.aliveAtPeak.size(), 2u);
  EXPECT_EQ(s.memory.aliveAtPeak[0].bytes, 40000);
  EXPECT_EQ(s.memory.aliveAtPeak[0].writer, find(s, "b"));
  EXPECT_EQ(s.memory.aliveAtPeak[1].bytes, 20000);
  EXPECT_EQ(s.memory.curve.back().second, 448 + 64);
}

/// A pipeline of two stages: the second one receives what the first one sends.
static std::string stages(std::string second) {
  return "heddle.mesh @mesh <[\"pp\"=2]>\n"
         "rt.program @first arena(200000) streams(2) attributes {heddle.ranks ="
         " #heddle.ranks<@mesh, {\"pp\" = [0]}>} {\n"
         "%peer = arith.constant 1 : index\n" +
         product("a", 50, 4, 0) + record(0) + wait(0, 1) +
         "rt.send stream(1) arena[0 : 10000xf32] peer(%peer) over @mesh "
         "<{\"pp\"}> serves <activation [\"send\"]>\n" +
         record(1, 1) + product("b", 100, 4, 1) + wait(1) +
         "}\n"
         "rt.program @second arena(200000) streams(2) attributes {heddle.ranks "
         "= #heddle.ranks<@mesh, {\"pp\" = [1]}>} {\n"
         "%peer = arith.constant 0 : index\n" +
         second + "}\n";
}

static std::vector<CallList> getStages(Programs &programs) {
  std::vector<CallList> lists;
  for (const char *name : {"first", "second"})
    lists.push_back(llvm::cantFail(getEntry(*programs.module, name))[0]);
  return lists;
}

TEST(Simulate, ListsOfRanksMeetInTransfers) {
  Programs programs(
      stages(record(0) + wait(0, 1) +
             "rt.recv stream(1) arena[0 : 10000xf32] peer(%peer) over @mesh "
             "<{\"pp\"}> serves <activation [\"receive\"]>\n" +
             record(1, 1) + wait(1) + product("c", 50, 0, 1)));
  Cluster cluster = makeRoundCluster(2);
  RooflineCostModel model(*programs.module, cluster);
  Simulation s =
      *simulate(*programs.module, getStages(programs), cluster, model);
  expectTimes(s, "a", 0, 1);
  expectTimes(s, "send", 1, 2);
  expectTimes(s, "b", 1, 3);
  expectTimes(s, "receive", 0, 2);
  expectTimes(s, "c", 2, 3);
  // The second stage waits for the first one, then for the transfer.
  EXPECT_NEAR(s.exposed, 1e-3, 1e-12);
  EXPECT_NEAR(s.times[1].exposed, 1e-3, 1e-12);
  EXPECT_NEAR(s.getBubble(0), 0, 1e-9);
  EXPECT_NEAR(s.getBubble(1), 1.0 / 3, 1e-9);
}

TEST(Simulate, ListsThatWaitForEverAreAnError) {
  Programs programs(
      stages(product("c", 50, 0, 1) + allReduce("d", 0, 0, "pp")));
  Cluster cluster = makeRoundCluster(2);
  RooflineCostModel model(*programs.module, cluster);
  std::string message;
  ScopedDiagnosticHandler handler(&programs.context, [&](Diagnostic &d) {
    message = d.str();
    return success();
  });
  EXPECT_TRUE(
      failed(simulate(*programs.module, getStages(programs), cluster, model)));
  EXPECT_NE(message.find("is never met"), std::string::npos) << message;
}

TEST(Simulate, AMissingPeakRateIsAnError) {
  Programs programs("rt.program @p arena(200000) {\n" + product("a", 50, 4, 0) +
                    "}\n");
  Cluster cluster = makeRoundCluster(1);
  cluster.device.peak = {{"bf16", 1e12}};
  std::string message;
  ScopedDiagnosticHandler handler(&programs.context, [&](Diagnostic &d) {
    message = d.str();
    return success();
  });
  EXPECT_TRUE(failed(programs.run(cluster)));
  EXPECT_NE(
      message.find("computes in 'f32', of which the cluster 'round' states "
                   "no peak rate: add it to device.peak"),
      std::string::npos)
      << message;
}

TEST(Simulate, AMeshLargerThanTheClusterIsAnError) {
  Programs programs(program("p arena(200000)", product("a", 50, 4, 0)));
  ScopedDiagnosticHandler handler(&programs.context,
                                  [&](Diagnostic &) { return success(); });
  EXPECT_TRUE(failed(programs.run(makeRoundCluster(1))));
}

/// Products take 2 ms, and 3 ms beside communication. Collectives take three
/// times the time of their links.
struct MeasuredModel : CostModel {
  using CostModel::getSeconds;
  FailureOr<double> getSeconds(rt::DeviceCallOpInterface) override {
    return 2e-3;
  }
  double getSeconds(const Communication &, double linkSeconds) override {
    return 3 * linkSeconds;
  }
  double getSlowdown(rt::DeviceCallOpInterface) override { return 1.5; }
};

TEST(Simulate, ACallThatNeverEndsIsAnError) {
  struct EndlessModel : MeasuredModel {
    using MeasuredModel::getSeconds;
    FailureOr<double> getSeconds(rt::DeviceCallOpInterface) override {
      return std::numeric_limits<double>::infinity();
    }
  };
  Programs programs("rt.program @p arena(200000) {\n" + product("a", 50, 4, 0) +
                    product("b", 50, 4, 0) + "}\n");
  EndlessModel model;
  std::string message;
  ScopedDiagnosticHandler handler(&programs.context, [&](Diagnostic &d) {
    message = d.str();
    return success();
  });
  EXPECT_TRUE(failed(programs.run(makeRoundCluster(1), model)));
  EXPECT_NE(message.find("never ends: expected its cost model to give it a "
                         "finite time, got INF s"),
            std::string::npos)
      << message;
}

TEST(Simulate, ModelsDecideTimes) {
  Programs programs(
      program("p arena(200000) streams(2)",
              record(0) + wait(0, 1) + allReduce("sum", 1, 0, "tp", 5000) +
                  record(1, 1) + product("a", 50, 4, 1) + wait(1)));
  MeasuredModel model;
  Simulation s = *programs.run(makeRoundCluster(2), model);
  expectTimes(s, "sum", 0, 1.5);
  expectTimes(s, "a", 0, 2.5); // 1 ms of work in 1.5 ms, then another 1 ms
  EXPECT_NEAR(s.bounds.compute, 2e-3, 1e-12);
}

TEST(Simulate, LaunchesAndLatenciesTakeTime) {
  Cluster cluster = makeRoundCluster(2);
  cluster.device.launch = 0.1e-3;
  cluster.levels[0].latency = 0.2e-3;
  Programs programs(program("p arena(200000)", product("a", 50, 4, 0) +
                                                   allReduce("s", 0, 0, "tp")));
  Simulation s = *programs.run(cluster);
  expectTimes(s, "a", 0, 1.1);
  expectTimes(s, "s", 1.1, 1.1 + 0.1 + 2 * 0.2 + 1);
}

} // namespace
