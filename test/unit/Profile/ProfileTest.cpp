//===- ProfileTest.cpp - Profiles, and the times that they give -----------===//

#include "../Simulate/Programs.h"
#include "heddle/Profile/Measure.h"
#include "heddle/Profile/ProfiledCostModel.h"
#include "heddle/Simulate/CallNumbers.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace heddle;

namespace {

MachineProfile makeMachine(int64_t ranks) {
  MachineProfile machine;
  machine.kind = "test";
  machine.ranks = ranks;
  machine.gap = 1e-6;
  machine.operators["matmul m=1"] = {"f32", 100, 10, 0.5, 0.75, 3};
  machine.collectives[{"all_reduce", 2, {{1e-5, 1e9}}}] = {{10, 1.0}};
  return machine;
}

/// The program whose simulation without a profile takes 1 ms for `a`, 1 ms for
/// `sum` beside 0.5 ms for `b`, and 1 ms for `c`.
std::string getProgram() {
  return "heddle.mesh @mesh <[\"tp\"=2]>\n"
         "rt.program @p arena(200000) streams(2) {\n" +
         product("a", 50, 4, 0) + record(0) + wait(0, 1) +
         allReduce("sum", 1, 0, "tp") + record(1, 1) + product("b", 25, 4, 1) +
         wait(1) + product("c", 50, 0, 2) + "}\n";
}

rt::DeviceCallOpInterface getCall(ModuleOp module, StringRef name) {
  rt::DeviceCallOpInterface found;
  module.walk([&](rt::DeviceCallOpInterface call) {
    if (call.getServes().getNames().front() == name)
      found = call;
  });
  return found;
}

MeshTopology getTopology(const Cluster &cluster) {
  return llvm::cantFail(MeshTopology::create(cluster, {2}));
}

TEST(Profile, TimesOfMessagesArePiecewiseLinear) {
  MessageTimes times = {{100, 1.0}, {200, 2.0}, {400, 8.0}};
  EXPECT_DOUBLE_EQ(interpolate(times, 10), 1);
  EXPECT_DOUBLE_EQ(interpolate(times, 150), 1.5);
  EXPECT_DOUBLE_EQ(interpolate(times, 300), 5);
  EXPECT_DOUBLE_EQ(interpolate(times, 500), 11);
  EXPECT_DOUBLE_EQ(interpolate({{100, 1.0}}, 300), 3);
  EXPECT_DOUBLE_EQ(interpolate({}, 300), 0);
}

TEST(Profile, TheTextIsCanonical) {
  Profile profile;
  EXPECT_EQ(writeProfile(
                llvm::cantFail(parseProfile(writeProfile(profile), "empty"))),
            writeProfile(profile));
  profile.add(makeMachine(2));
  profile.add(makeMachine(1));
  std::string text = writeProfile(profile);
  Profile read = llvm::cantFail(parseProfile(text, "profile"));
  EXPECT_EQ(writeProfile(read), text);
  ASSERT_EQ(read.machines.size(), 2u);
  EXPECT_EQ(read.machines[0].operators["matmul m=1"].beside, 0.75);
}

TEST(Profile, NewMeasurementsReplaceOldOnes) {
  Profile profile;
  profile.add(makeMachine(2));
  MachineProfile more = makeMachine(2);
  more.operators.clear();
  more.operators["matmul m=1"] = {"f32", 100, 10, 0.6, 0, 3};
  more.operators["matmul m=2"] = {"f32", 200, 20, 0.9, 0, 3};
  more.collectives = {{{"all_reduce", 2, {{1e-5, 1e9}}}, {{20, 2.0}}}};
  profile.add(more);
  ASSERT_EQ(profile.machines.size(), 1u);
  MachineProfile &machine = profile.machines[0];
  EXPECT_EQ(machine.operators["matmul m=1"].seconds, 0.6);
  EXPECT_EQ(machine.operators["matmul m=1"].beside, 0.75);
  EXPECT_EQ(machine.operators["matmul m=2"].seconds, 0.9);
  EXPECT_EQ(machine.collectives.begin()->second.size(), 2u);
  profile.add(makeMachine(8));
  EXPECT_EQ(profile.find(2)->ranks, 2);
  EXPECT_EQ(profile.find(6)->ranks, 2);
  EXPECT_EQ(profile.find(16)->ranks, 8);
  EXPECT_EQ(profile.find(1)->ranks, 2);
  EXPECT_EQ(Profile().find(1), nullptr);
}

TEST(CallKeys, PlacesAndNamesDoNotCount) {
  Programs programs(getProgram());
  CallKeys keys(*programs.module);
  EXPECT_EQ(keys.get(getCall(*programs.module, "a")),
            keys.get(getCall(*programs.module, "c")));
  EXPECT_NE(keys.get(getCall(*programs.module, "a")),
            keys.get(getCall(*programs.module, "b")));
  EXPECT_EQ(CallKeys::getKind(keys.get(getCall(*programs.module, "sum"))),
            "all_reduce");
}

TEST(ProfiledCostModel, MeasuredTimesAreTakenAndOthersEstimated) {
  Programs programs(getProgram());
  Cluster cluster = makeRoundCluster(2);
  CallKeys keys(*programs.module);
  MachineProfile machine;
  machine.ranks = 2;
  // Twice the roofline of 1 ms, and three times as long beside communication.
  machine.operators[keys.get(getCall(*programs.module, "a"))] = {
      "f32", 1000000, 80000, 2e-3, 6e-3, 1};
  ProfiledCostModel model(*programs.module, getTopology(cluster), machine);
  Simulation s = *programs.run(cluster, model);
  EXPECT_EQ(model.getNumCalls(), 2u);
  EXPECT_EQ(model.getNumMeasured(), 1u);
  // `b` takes 1 ms, twice its roofline. For 1 ms it runs beside `sum`, at a
  // third of its pace.
  EXPECT_NEAR(s.calls[find(s, "a")].end, 2e-3, 1e-9);
  EXPECT_NEAR(s.calls[find(s, "sum")].end, 3e-3, 1e-9);
  EXPECT_NEAR(s.calls[find(s, "b")].end, 3e-3 + 2e-3 / 3, 1e-9);
  EXPECT_NEAR(s.calls[find(s, "c")].end, s.calls[find(s, "b")].end + 2e-3,
              1e-9);
}

TEST(ProfiledCostModel, TheMachineIsTheLeastTimeOfACollective) {
  Programs programs(getProgram());
  Cluster cluster = makeRoundCluster(2);
  auto getTime = [&](const MachineProfile &machine) {
    ProfiledCostModel model(*programs.module, getTopology(cluster), machine);
    Simulation s = *programs.run(cluster, model);
    const SimulatedCall &sum = s.calls[find(s, "sum")];
    return sum.end - sum.start;
  };
  MachineProfile machine;
  EXPECT_NEAR(getTime(machine), 1e-3, 1e-9);
  machine.collectives[{"all_reduce", 2, {}}] = {{40000, 0.5e-3}};
  EXPECT_NEAR(getTime(machine), 1e-3, 1e-9);
  machine.collectives[{"all_reduce", 2, {}}] = {{40000, 4e-3}};
  EXPECT_NEAR(getTime(machine), 4e-3, 1e-9);
  // Measured on these links, it takes that time, shorter or longer.
  machine.collectives[{"all_reduce", 2, {{0, 40e6}}}] = {{40000, 0.7e-3}};
  EXPECT_NEAR(getTime(machine), 0.7e-3, 1e-9);
  // Other links count for nothing.
  machine.collectives = {{{"all_reduce", 2, {{0, 10e6}}}, {{40000, 9e-3}}}};
  EXPECT_NEAR(getTime(machine), 1e-3, 1e-9);
}

TEST(ProfiledCostModel, GapsAndWakesTakeTime) {
  Programs programs(getProgram());
  Cluster cluster = makeRoundCluster(2);
  MachineProfile machine;
  machine.gap = 0.1e-3;
  machine.wake = 0.2e-3;
  machine.start = 0.5e-3;
  ProfiledCostModel model(*programs.module, getTopology(cluster), machine);
  Simulation s = *programs.run(cluster, model);
  // a, a wake-up, sum, a wake-up, c.
  EXPECT_NEAR(s.calls[find(s, "sum")].end, 1.1e-3 + 1.3e-3, 1e-9);
  EXPECT_NEAR(s.calls[find(s, "c")].end, 2.4e-3 + 1.3e-3, 1e-9);
  EXPECT_NEAR(s.seconds, 3.7e-3 + 0.5e-3, 1e-9);
}

TEST(MeasuringPrograms, CallsRunOneAfterAnother) {
  Programs programs(getProgram());
  ModuleOp module = *programs.module;
  ASSERT_FALSE(llvm::errorToBool(makeAloneProgram(module, {"p"}, {})));
  EXPECT_TRUE(succeeded(verify(module)));
  auto alone = module.lookupSymbol<rt::ProgramOp>("alone_p");
  ASSERT_TRUE(alone);
  int64_t calls = 0;
  alone.walk([&](rt::DeviceCallOpInterface call) {
    EXPECT_EQ(call.getStream(), 0);
    ++calls;
  });
  EXPECT_EQ(calls, 4);
  EXPECT_FALSE(module.lookupSymbol("p"));
  auto collectives = module.lookupSymbol<rt::ProgramOp>("collectives");
  ASSERT_TRUE(collectives);
  // 1 KiB to 4 MiB.
  auto messages =
      llvm::to_vector(collectives.getBody().getOps<rt::AllReduceOp>());
  EXPECT_EQ(messages.size(), 7u);
}

TEST(GatherTimes, ACallTakesTheMeanOverItsPlacesOfTheMedianOverRuns) {
  Programs programs(getProgram());
  ModuleOp module = *programs.module;
  CallNumbers numbers(module);
  CallKeys keys(module);
  rt::DeviceCallOpInterface a = getCall(module, "a"), c = getCall(module, "c");
  ASSERT_EQ(keys.get(a), keys.get(c));
  RunTrace trace;
  auto add = [&](rt::DeviceCallOpInterface call, ArrayRef<double> seconds) {
    for (auto [run, each] : llvm::enumerate(seconds)) {
      TracedCall traced;
      traced.program = "p";
      traced.index = numbers.get(call).index;
      traced.run = int64_t(run);
      traced.start = double(trace.calls.size());
      traced.seconds = each;
      trace.calls.push_back(traced);
    }
  };
  add(a, {1e-3, 9e-3, 1e-3});
  add(c, {3e-3, 3e-3, 2e-3});
  Cluster cluster = makeRoundCluster(2);
  MachineProfile machine;
  addAloneTimes(machine, module, trace, getTopology(cluster), false);
  const OperatorTime &time = machine.operators.at(keys.get(a));
  EXPECT_NEAR(time.seconds, 2e-3, 1e-12);
  EXPECT_EQ(time.samples, 6);
}

TEST(GatherTimes, DisturbedRunsDoNotCount) {
  RunTrace trace, later;
  auto add = [](RunTrace &trace, ArrayRef<double> runs) {
    for (auto [run, seconds] : llvm::enumerate(runs)) {
      TracedCall call;
      call.table = "p";
      call.run = int64_t(run);
      call.seconds = seconds;
      trace.calls.push_back(call);
      // The second rank always takes less time.
      trace.tables.push_back({"p", 0, call.run, 0, seconds});
      trace.tables.push_back({"p", 1, call.run, 0, seconds / 2});
    }
  };
  // All runs of the first time are disturbed.
  add(trace, {1.3, 1.4, 1.3, 1.5, 1.12});
  add(later, {1.0, 1.02, 1.05, 0.98, 1.0});
  cantFail(trace.append(later));
  EXPECT_EQ(trace.calls.back().run, 9);
  dropDisturbedRuns(trace);
  ASSERT_EQ(trace.calls.size(), 5u);
  EXPECT_EQ(trace.tables.size(), 10u);
  EXPECT_EQ(trace.calls.front().run, 5);
  // Runs that differ by less stay.
  dropDisturbedRuns(later);
  EXPECT_EQ(later.calls.size(), 5u);
}

TEST(MeasuringPrograms, PermutesHaveMessagesOfOtherSizes) {
  Programs programs(
      "heddle.mesh @mesh <[\"tp\"=2]>\n"
      "rt.program @p arena(200000) {\n"
      "rt.permute arena[0 : 8xf32] -> arena[64 : 8xf32] sources [1, 0] over "
      "@mesh <{\"tp\"}> serves <activation [\"ring\"]>\n}\n");
  ModuleOp module = *programs.module;
  ASSERT_FALSE(llvm::errorToBool(makeAloneProgram(module, {"p"}, {})));
  EXPECT_TRUE(succeeded(verify(module)));
  auto collectives = module.lookupSymbol<rt::ProgramOp>("collectives");
  ASSERT_TRUE(collectives);
  auto messages =
      llvm::to_vector(collectives.getBody().getOps<rt::PermuteOp>());
  ASSERT_EQ(messages.size(), 7u);
  EXPECT_EQ(messages.back().getIn().getBytes(), 4 << 20);
}

TEST(MeasuringPrograms, MessagesRunBesideTheCalls) {
  Programs programs(getProgram());
  ModuleOp module = *programs.module;
  MachineProfile machine;
  CallKeys keys(module);
  for (const char *name : {"a", "b"})
    machine.operators[keys.get(getCall(module, name))].seconds = 1e-3;
  machine.collectives[{"all_reduce", 2, {}}] = {{1 << 20, 1e-3}};
  EXPECT_TRUE(llvm::cantFail(makeBesideProgram(module, {"p"}, machine)));
  EXPECT_TRUE(succeeded(verify(module)));
  auto beside = module.lookupSymbol<rt::ProgramOp>("beside_p");
  int64_t messages = 0;
  for (auto message : beside.getBody().getOps<rt::AllReduceOp>())
    messages += message.getStream() == 1;
  // Twice the 3 ms of three products.
  EXPECT_EQ(messages, 6);
}

} // namespace
