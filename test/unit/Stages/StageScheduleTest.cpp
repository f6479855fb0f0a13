//===- StageScheduleTest.cpp - Schedules of pipelines ---------------------===//

#include "heddle/Stages/StageSchedule.h"
#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>

using namespace heddle;

static StageSchedule make(PipelineSchedule kind, int64_t devices,
                          int64_t microBatches, int64_t chunks = 0,
                          std::vector<StageTimes> times = {}) {
  ScheduleProblem problem;
  problem.schedule = kind;
  problem.devices = devices;
  problem.stages = devices * (chunks ? chunks : hasChunks(kind) ? 2 : 1);
  problem.microBatches = microBatches;
  problem.times = std::move(times);
  llvm::Expected<StageSchedule> schedule = makeSchedule(problem);
  if (!schedule) {
    ADD_FAILURE() << llvm::toString(schedule.takeError());
    return {};
  }
  return std::move(*schedule);
}

using Kind = PipelineSchedule;

TEST(StageSchedule, HasTheKnownTimes) {
  EXPECT_DOUBLE_EQ(make(Kind::GPipe, 8, 24).getMakespan(), 93);
  EXPECT_DOUBLE_EQ(make(Kind::OneFOneB, 8, 24).getMakespan(), 93);
  EXPECT_DOUBLE_EQ(make(Kind::Interleaved, 8, 24).getMakespan(), 82.5);
  EXPECT_DOUBLE_EQ(make(Kind::ZBH1, 8, 24).getMakespan(), 79);
  EXPECT_DOUBLE_EQ(make(Kind::ZBH2, 8, 24).getMakespan(), 79);
  EXPECT_DOUBLE_EQ(make(Kind::ZBV, 8, 24).getMakespan(), 75.5);
  EXPECT_DOUBLE_EQ(make(Kind::ZBH2, 8, 24).getSpan(), 72);
  EXPECT_DOUBLE_EQ(make(Kind::ZBV, 8, 24).getSpan(), 72);
}

TEST(StageSchedule, KeepsTheMemoryOfItsDefinition) {
  for (int64_t device = 0; device < 4; ++device) {
    EXPECT_EQ(make(Kind::GPipe, 4, 16).getInFlight(device),
              device == 3 ? 1 : 16);
    EXPECT_LE(make(Kind::OneFOneB, 4, 16).getInFlight(device), 4 - device);
    StageSchedule h1 = make(Kind::ZBH1, 4, 16);
    EXPECT_LE(h1.getInFlight(device), 4 - device);
    EXPECT_LE(h1.getPendingWeights(device), 4);
    EXPECT_LE(make(Kind::ZBH2, 4, 16).getInFlight(device),
              2 * (4 - device) - 1);
    // Two stages on a device, each of half the size.
    EXPECT_LE(make(Kind::ZBV, 4, 16).getInFlight(device), 2 * 4);
  }
}

// With HEDDLE_LONG_TESTS, all sizes up to 16 devices and 64 micro-batches.
TEST(StageSchedule, IsAtItsLowerBoundForEqualTimes) {
  bool isLong = std::getenv("HEDDLE_LONG_TESTS");
  std::vector<int64_t> sizes = {2, 3, 4, 7, 8, 16};
  for (int64_t p = 2; isLong && p <= 16; ++p)
    sizes.push_back(p);
  for (int64_t p : sizes)
    for (int64_t m = p; m <= 64; m += isLong ? 1 : 7) {
      double bubble = double(p - 1), work = 3 * double(m);
      SCOPED_TRACE("p " + std::to_string(p) + ", m " + std::to_string(m));
      EXPECT_DOUBLE_EQ(make(Kind::OneFOneB, p, m).getMakespan(),
                       work + 3 * bubble);
      EXPECT_NEAR(make(Kind::Interleaved, p, m).getMakespan(),
                  work + 1.5 * bubble, 1e-9);
      if (m % p == 0) {
        EXPECT_NEAR(make(Kind::Interleaved, p, m, 3).getMakespan(),
                    work + bubble, 1e-9);
      }
      EXPECT_DOUBLE_EQ(make(Kind::ZBH1, p, m).getMakespan(), work + bubble);
      EXPECT_DOUBLE_EQ(make(Kind::ZBH2, p, m).getMakespan(), work + bubble);
      EXPECT_DOUBLE_EQ(make(Kind::ZBV, p, m).getMakespan(), work + bubble / 2);
    }
}

// Where the last micro-batches do not fill the devices' room.
TEST(StageSchedule, IsAtItsLowerBoundForFewMoreMicroBatchesThanDevices) {
  for (int64_t p : {5, 8, 12, 16})
    for (int64_t m : {p + 1, p + 2, p + 4, 2 * p + 1, 3 * p + 1}) {
      SCOPED_TRACE("p " + std::to_string(p) + ", m " + std::to_string(m));
      StageSchedule schedule = make(Kind::ZBV, p, m);
      EXPECT_DOUBLE_EQ(schedule.getMakespan(),
                       3 * double(m) + double(p - 1) / 2);
      for (int64_t device = 0; device < p; ++device)
        EXPECT_LE(schedule.getInFlight(device), 2 * p);
    }
}

TEST(StageSchedule, IsNeverWorseThan1F1BForUnequalTimes) {
  const StageTimes shapes[] = {{1, 1, 1}, {1, 1.2, 0.7}, {1, 0.8, 1.3}};
  for (int64_t p : {2, 3, 4, 8, 16})
    for (int64_t m : {p, 2 * p + 1, int64_t(64)})
      for (StageTimes shape : shapes)
        for (double head : {1.0, 1.5}) {
          auto times = [&](int64_t stages) {
            double part = double(p) / double(stages);
            std::vector<StageTimes> list(stages, {shape.forward * part,
                                                  shape.backward * part,
                                                  shape.weights * part});
            list.back().forward *= head;
            return list;
          };
          double known = make(Kind::OneFOneB, p, m, 0, times(p)).getMakespan();
          SCOPED_TRACE("p " + std::to_string(p) + ", m " + std::to_string(m));
          for (Kind kind : {Kind::ZBH1, Kind::ZBH2})
            EXPECT_LE(make(kind, p, m, 0, times(p)).getMakespan(),
                      known + 1e-9);
          for (Kind kind : {Kind::Interleaved, Kind::ZBV})
            EXPECT_LE(make(kind, p, m, 0, times(2 * p)).getMakespan(),
                      known + 1e-9);
        }
}

// Steps that overlap follow each other by the span. The backward passes take a
// little longer here, so the shortest makespan does not have the shortest span.
TEST(StageSchedule, HasTheShortestSpanWithoutABarrier) {
  for (int64_t devices : {4, 8}) {
    ScheduleProblem problem;
    problem.schedule = Kind::ZBV;
    problem.devices = devices;
    problem.stages = 2 * devices;
    problem.microBatches = 12;
    problem.times.assign(problem.stages, {1, 1.1, 1});
    StageSchedule whole = llvm::cantFail(makeSchedule(problem));
    problem.hasBarrier = false;
    StageSchedule free = llvm::cantFail(makeSchedule(problem));
    EXPECT_LT(free.getSpan(), 0.99 * whole.getSpan());
    EXPECT_GE(free.getMakespan(), whole.getMakespan());
  }
}

TEST(StageSchedule, IsMadeInASecond) {
  for (Kind kind : {Kind::Interleaved, Kind::ZBH2, Kind::ZBV}) {
    std::vector<StageTimes> times(16 * (hasChunks(kind) ? 2 : 1),
                                  {1, 1.2, 0.7});
    auto start = std::chrono::steady_clock::now();
    make(kind, 16, 64, 0, times);
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    EXPECT_LT(time.count(), 1);
  }
}

TEST(StageSchedule, RunsWithLessMemory) {
  ScheduleProblem problem;
  problem.schedule = Kind::ZBH2;
  problem.devices = problem.stages = 4;
  problem.microBatches = 12;
  problem.mostInFlight = 3;
  StageSchedule schedule = llvm::cantFail(makeSchedule(problem));
  for (int64_t device = 0; device < 4; ++device)
    EXPECT_LE(schedule.getInFlight(device), 3);
}

static std::string getError(llvm::StringRef text, int64_t microBatches,
                            int64_t mostInFlight = 0) {
  llvm::Expected<StageSchedule> schedule =
      parseSchedule(text, "table.json", microBatches, mostInFlight);
  return schedule ? "" : llvm::toString(schedule.takeError());
}

TEST(StageSchedule, ReadsATableOfOnesOwn) {
  EXPECT_EQ(getError(R"({"devices": [["F0.0", "F0.1", "B0.0", "B0.1"],
                                     ["F1.0", "B1.0", "F1.1", "B1.1"]]})",
                     2),
            "");
}

TEST(StageSchedule, NamesTheEntryThatIsWrong) {
  // The backward pass of stage 0 comes before stage 1 can have sent anything.
  EXPECT_EQ(getError(R"({"devices": [["F0.0", "B0.0", "F0.1", "B0.1"],
                                     ["F1.1", "B1.1", "F1.0", "B1.0"]]})",
                     2),
            "table.json: device 0, entry 1: B0.0 waits for ever for B1.0, "
            "entry 3 of device 1");
  // The last stage would send the gradient before it has the activation.
  EXPECT_EQ(getError(R"({"devices": [["F0.0", "B0.0"], ["B1.0", "F1.0"]]})", 1),
            "table.json: device 1, entry 0: B1.0 reads what F1.0 makes: "
            "expected F1.0 before it, got it as entry 1");
  // A stage is where most of its tasks are.
  EXPECT_EQ(getError(R"({"devices": [["F1.0", "F0.0", "F0.1", "B0.0", "B0.1"],
                                     ["B1.0", "F1.1", "B1.1"]]})",
                     2),
            "table.json: device 0, entry 0: F1.0: expected stage 1 on device "
            "1, which has its variables");
  EXPECT_EQ(getError(R"({"devices": [["F0.0", "B0.0"],
                                     ["F1.0", "B1.0", "F1.1", "B1.1"]]})",
                     2),
            "table.json: device 0: expected F0.1, got no such entry");
  EXPECT_EQ(
      getError(R"({"devices": [["F0.0", "F0.999999999999", "B0.0"]]})", 0),
      "table.json: expected a forward pass of each of 1 stages for each "
      "of 1000000000000 micro-batches, got 3 entries in all");
  EXPECT_EQ(getError(R"({"devices": [["F0.0", "B0.0", "B0.0"],
                                     ["F1.0", "B1.0"]]})",
                     1),
            "table.json: device 0, entry 2: B0.0 is there already, as entry 1");
  EXPECT_EQ(getError(R"({"devices": [["F0.0", "F0.1", "B0.0", "B0.1"],
                                     ["F1.0", "B1.0", "F1.1", "B1.1"]]})",
                     2, 1),
            "table.json: device 0, entry 1: F0.1 is the forward pass number 2 "
            "in flight: expected at most 1, the memory's limit; run a backward "
            "pass before");
  EXPECT_EQ(getError(R"({"devices": [["F0.0", "G0.0"]]})", 1),
            "table.json: $.devices[0][1]: expected a task such as \"F0.3\", "
            "\"B0.3\" or \"W0.3\" (stage and micro-batch), got \"G0.0\"");
  for (llvm::StringRef task : {"F0.-1", "F-1.0", "F0.9223372036854775807"})
    EXPECT_EQ(getError(("{\"devices\": [[\"" + task + "\"]]}").str(), 0),
              ("table.json: $.devices[0][0]: expected a task such as \"F0.3\", "
               "\"B0.3\" or \"W0.3\" (stage and micro-batch), got \"" +
               task + "\"")
                  .str());
  EXPECT_EQ(getError(R"({"devices": [["F0.0", "B0.0"], []]})", 1),
            "table.json: $.devices[1]: expected at least one task, got none");
  EXPECT_EQ(getError(R"({"devices": [["F0.0", "B0.0"]], "micro": 1})", 0),
            "table.json: $: unknown key \"micro\": expected devices alone");
}

TEST(StageSchedule, RefusesStagesThatDoNotFit) {
  ScheduleProblem problem;
  problem.devices = 4;
  problem.stages = 6;
  problem.microBatches = 8;
  llvm::Expected<StageSchedule> schedule = makeSchedule(problem);
  ASSERT_FALSE(schedule);
  EXPECT_EQ(llvm::toString(schedule.takeError()),
            "pipeline: expected as many stages on each of 4 devices, got 6 "
            "stages");
}
