//===- PipelinesTest.cpp - Bubbles of pipelines whose stages are equal ----===//

#include "Programs.h"
#include "heddle/Stages/StageSchedule.h"

using namespace mlir;
using namespace heddle;

namespace {

/// A product that takes `milliseconds`, reads `from` and writes `to`.
std::string pass(std::string name, double milliseconds, std::string from,
                 std::string to) {
  std::string k = std::to_string(int(50 * milliseconds));
  return "rt.matmul m(100) n(100) k(" + k + ") a(" + from + "[0 : 100x" + k +
         "xf32] strides [" + k + ", 1]) b(arena[100000 : " + k +
         "x100xf32] strides [100, 1]) c(" + to +
         "[0 : 100x100xf32] stride 100) serves <activation [\"" + name +
         "\"]>\n";
}

/// A pipeline in which the passes of a device take 1 ms each, or all backward
/// passes together 2 ms. The stages of a device share these times.
class Pipeline {
public:
  Pipeline(PipelineSchedule schedule, int64_t devices, int64_t microBatches,
           int64_t chunks = 1, bool hasBarrier = true, double bandwidth = 1e15)
      : schedule(schedule), devices(devices), stages(devices * chunks),
        part(1.0 / double(chunks)) {
    text = "module attributes {heddle.micro_batches = " +
           std::to_string(microBatches) +
           " : i64, heddle.pipeline = #heddle.pipeline<\"pp\", " +
           stringifyPipelineSchedule(schedule).str() + ", stages " +
           std::to_string(stages) +
           (hasBarrier ? ">" : ">, heddle.no_step_barrier") +
           "} {\nheddle.mesh @mesh <[\"pp\"=" + std::to_string(devices) +
           "]>\n";
    for (int64_t stage = 0; stage < stages; ++stage)
      addStage(stage);
    text += "}\n";
    programs = std::make_unique<Programs>(text);
    Cluster cluster = makeRoundCluster(devices);
    cluster.levels[0].bandwidth = bandwidth;
    simulation = *programs->run(cluster);
  }

  /// A step. By default, links take next to no time.
  const Simulation &get() const { return simulation; }

private:
  static std::string name(std::string value, int64_t stage) {
    return value + std::to_string(stage);
  }
  static std::string ports(const std::vector<std::string> &names) {
    std::string list;
    for (const std::string &name : names)
      list += (list.empty() ? "#rt.port<\"" : ", #rt.port<\"") + name +
              "\", tensor<100x150xf32>>";
    return "[" + list + "]";
  }

  /// Adds a program, whose passes follow each other from the first argument to
  /// the results.
  void add(StageWork work, int64_t stage, std::vector<double> passes,
           std::vector<std::string> inputs, std::vector<std::string> outputs) {
    std::string kind = stringifyStageWork(work).str();
    int64_t device = getDeviceOfStage(schedule, devices, stage);
    text += "rt.program @" + kind + std::to_string(stage) + " arena(200000)";
    if (!inputs.empty())
      text += " arguments " + ports(inputs);
    if (!outputs.empty())
      text += " results " + ports(outputs);
    text += " attributes {heddle.ranks = #heddle.ranks<@mesh, {\"pp\" = [" +
            std::to_string(device) +
            "]}>, heddle.stage_program = #heddle.stage_program<\"step\", " +
            kind + ", stage " + std::to_string(stage) + ">} {\n";
    std::string place = inputs.empty() ? "arena" : "argument 0";
    for (size_t i = 0; i < passes.size(); ++i) {
      bool isLast = i + 1 == passes.size() && !outputs.empty();
      std::string to = isLast ? "result 0" : "arena";
      text += pass(kind + std::to_string(stage), passes[i], place, to);
      place = to;
    }
    for (size_t i = 1; i < outputs.size(); ++i)
      text += "rt.copy " + place + "[0 : 100x150xf32] -> result " +
              std::to_string(i) + "[0 : 100x150xf32] serves <activation [\"" +
              outputs[i] + "\"]>\n";
    text += "}\n";
  }

  void addStage(int64_t stage) {
    bool isFirst = stage == 0, isLast = stage + 1 == stages,
         splits = splitsBackward(schedule);
    double backward = splits ? part : 2 * part;
    std::vector<std::string> inputs, outputs;
    if (!isFirst)
      inputs = {name("activation", stage - 1)};
    if (isLast && !isFirst)
      outputs.push_back(name("gradient", stage - 1));
    if (!isLast)
      outputs = {name("activation", stage), name("kept", stage)};
    if (isLast && splits)
      outputs.push_back(name("rest", stage));
    add(StageWork::Forward, stage,
        isLast ? std::vector{part, backward} : std::vector{part}, inputs,
        outputs);
    if (!isLast) {
      outputs.clear();
      if (!isFirst)
        outputs.push_back(name("gradient", stage - 1));
      if (splits)
        outputs.push_back(name("rest", stage));
      add(StageWork::Backward, stage, {backward},
          {name("gradient", stage), name("kept", stage)}, outputs);
    }
    if (splits)
      add(StageWork::BackwardWeights, stage, {part}, {name("rest", stage)}, {});
  }

  PipelineSchedule schedule;
  int64_t devices, stages;
  double part;
  std::string text;
  std::unique_ptr<Programs> programs;
  Simulation simulation; ///< of ops of `programs`
};

TEST(SimulatePipelines, BubblesAreThoseOfTheSchedules) {
  for (int64_t p : {2, 4})
    for (int64_t m : {4, 8, 12}) {
      auto expectBubble = [&](PipelineSchedule schedule, int64_t chunks,
                              double bubble) {
        Pipeline pipeline(schedule, p, m, chunks);
        const Simulation &s = pipeline.get();
        EXPECT_NEAR(s.getBubble(), bubble, 1e-6)
            << getScheduleName(schedule).str() << " p " << p << " m " << m;
        EXPECT_NEAR(s.seconds, 3e-3 * double(m) / (1 - bubble), 1e-8);
        EXPECT_NEAR(s.bounds.compute, 3e-3 * double(m), 1e-9);
        ASSERT_EQ(int64_t(s.lists.size()), p);
      };
      auto P = double(p), M = double(m);
      expectBubble(PipelineSchedule::GPipe, 1, (P - 1) / (M + P - 1));
      expectBubble(PipelineSchedule::OneFOneB, 1, (P - 1) / (M + P - 1));
      expectBubble(PipelineSchedule::Interleaved, 2, (P - 1) / (2 * M + P - 1));
      // The passes for weights fill two thirds of the time that 1F1B waits.
      expectBubble(PipelineSchedule::ZBH1, 1, (P - 1) / (3 * M + P - 1));
    }
}

TEST(SimulatePipelines, ZeroBubbleWaitsLessThanHalfOf1F1B) {
  double simple = Pipeline(PipelineSchedule::OneFOneB, 4, 12).get().getBubble();
  EXPECT_LT(Pipeline(PipelineSchedule::ZBH2, 4, 12).get().getBubble(),
            simple / 2);
  EXPECT_LT(Pipeline(PipelineSchedule::ZBV, 4, 12, 2).get().getBubble(),
            simple / 2);
}

TEST(SimulatePipelines, StepsWithoutABarrierFollowWithTheSpan) {
  constexpr int64_t kDevices = 8, kMicroBatches = 24;
  for (auto [schedule, makespan, span] :
       {std::tuple(PipelineSchedule::OneFOneB, 93.0, 93.0),
        std::tuple(PipelineSchedule::ZBH1, 79.0, 79.0),
        std::tuple(PipelineSchedule::ZBH2, 79.0, 72.0),
        std::tuple(PipelineSchedule::ZBV, 75.5, 72.0)}) {
    int64_t chunks = hasChunks(schedule) ? 2 : 1;
    auto getMilliseconds = [&](bool hasBarrier) {
      return 1e3 *
             Pipeline(schedule, kDevices, kMicroBatches, chunks, hasBarrier)
                 .get()
                 .seconds;
    };
    EXPECT_NEAR(getMilliseconds(true), makespan, 1e-3);
    EXPECT_NEAR(getMilliseconds(false), span, 1e-3);
  }
}

TEST(SimulatePipelines, TimesWithoutABarrierAreThoseOfThePeriod) {
  // A transfer takes 0.2 ms.
  constexpr double kBandwidth = 100 * 150 * 4 / 0.2e-3;
  for (PipelineSchedule schedule :
       {PipelineSchedule::ZBH2, PipelineSchedule::ZBV}) {
    int64_t chunks = hasChunks(schedule) ? 2 : 1;
    Pipeline stepwise(schedule, 4, 8, chunks, true, kBandwidth),
        overlapped(schedule, 4, 8, chunks, false, kBandwidth);
    const Simulation &step = stepwise.get(), &s = overlapped.get();
    EXPECT_TRUE(step.bounds.criticalPath);
    // The longest chain is no bound of a single step.
    EXPECT_FALSE(s.bounds.criticalPath);
    EXPECT_GE(s.seconds, s.bounds.get() - 1e-9);
    EXPECT_LT(s.seconds, step.seconds);
    double most = 0;
    for (const ListTimes &times : s.times) {
      EXPECT_NEAR(times.computing, 24e-3, 1e-9);
      EXPECT_LE(times.computing + times.exposed, s.seconds + 1e-9);
      most = std::max(most, times.exposed);
    }
    EXPECT_EQ(s.exposed, most);
  }
}

TEST(SimulatePipelines, TheCriticalPathCrossesStages) {
  // One micro-batch goes through all stages and back: no order is faster.
  Pipeline pipeline(PipelineSchedule::OneFOneB, 4, 4);
  const Simulation &s = pipeline.get();
  EXPECT_NEAR(s.bounds.criticalPath.value(), 12e-3, 1e-7);
  EXPECT_NEAR(s.bounds.get(), 12e-3, 1e-7);
}

TEST(SimulatePipelines, EachDeviceHasItsOwnMemory) {
  // The first of four devices keeps two values of four micro-batches.
  constexpr int64_t kValue = 100 * 150 * 4;
  Pipeline pipeline(PipelineSchedule::OneFOneB, 4, 8);
  const Simulation &s = pipeline.get();
  ASSERT_EQ(s.memories.size(), 4u);
  for (int64_t device = 0; device + 1 < 4; ++device) {
    const MemoryUse &memory = s.memories[device];
    EXPECT_GE(memory.plan.slots, (4 - device) * kValue) << device;
    EXPECT_LE(memory.peak, memory.plan.total());
    EXPECT_GE(memory.plan.slots, s.memories[device + 1].plan.slots);
  }
  EXPECT_GT(s.memories[0].plan.slots, s.memories[2].plan.slots);
  EXPECT_EQ(s.memory.plan.total(), s.memories[0].plan.total());
}

} // namespace
