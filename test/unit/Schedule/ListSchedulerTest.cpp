//===- ListSchedulerTest.cpp - An order for units on queues ---------------===//

#include "OrderProgram/ListScheduler.h"
#include "heddle/Support/Random.h"

#include <gtest/gtest.h>
#include <numeric>

using namespace heddle;

namespace {

/// Adds a unit and returns its number.
int32_t add(UnitGraph &graph, int32_t queue, double seconds,
            llvm::ArrayRef<int32_t> after = {}) {
  Unit unit;
  unit.queue = queue;
  unit.seconds = seconds;
  unit.after.assign(after.begin(), after.end());
  graph.units.push_back(unit);
  graph.queues = std::max(graph.queues, queue + 1);
  return static_cast<int32_t>(graph.units.size()) - 1;
}

/// Expects that every unit starts when the units before it have ended, that
/// queues run one unit at a time, and that the order is that of the starts.
void expectLegal(const UnitGraph &graph, const Schedule &schedule) {
  ASSERT_EQ(schedule.order.size(), graph.units.size());
  std::vector<double> freeAt(graph.queues);
  double last = 0, end = 0;
  for (int32_t number : schedule.order) {
    const Unit &unit = graph.units[number];
    double start = schedule.start[number];
    EXPECT_GE(start, last);
    EXPECT_GE(start, freeAt[unit.queue]);
    for (int32_t earlier : unit.after)
      EXPECT_GE(start, schedule.start[earlier] + graph.units[earlier].seconds);
    last = start;
    freeAt[unit.queue] = start + unit.seconds;
    end = std::max(end, start + unit.seconds);
  }
  EXPECT_DOUBLE_EQ(schedule.seconds, end);
}

/// The halves of a batch pass through layers of a computation and a collective
/// of equal length. Half b computes while half a communicates.
UnitGraph makeHalves(int layers) {
  UnitGraph graph;
  for (int half = 0; half < 2; ++half) {
    int32_t last = -1;
    for (int layer = 0; layer < layers; ++layer) {
      last = last < 0 ? add(graph, 0, 1) : add(graph, 0, 1, {last});
      last = add(graph, 1, 1, {last});
    }
  }
  return graph;
}

TEST(ListScheduler, CommunicationSlowsComputationDown) {
  // The collective runs from 0 to 4 and occupies half of the device, so the
  // computation is slowed down by half of its slowdown during this time.
  UnitGraph graph;
  int32_t collective = add(graph, 1, 4);
  int32_t computation = add(graph, 0, 10);
  int32_t next = add(graph, 0, 1, {computation});
  graph.units[collective].load = 0.5;
  graph.units[computation].slowdown = 1.5;
  graph.units[next].slowdown = 3;
  Schedule schedule = scheduleByRank(graph, {0, 1, 2});
  // 4 seconds at a pace of 1.25 do 3.2 seconds of work.
  EXPECT_DOUBLE_EQ(schedule.start[next], 4 + 10 - 3.2);
  EXPECT_DOUBLE_EQ(schedule.seconds, 4 + 10 - 3.2 + 1);
}

TEST(ListScheduler, HalvesHideEachOther) {
  UnitGraph graph = makeHalves(8);
  Schedule schedule = findSchedule(graph, {});
  expectLegal(graph, schedule);
  // 16 computations, and the last collective.
  EXPECT_DOUBLE_EQ(schedule.seconds, 17);
  EXPECT_DOUBLE_EQ(scheduleInSequence(graph).seconds, 32);
  ScheduleBounds bounds = getBounds(graph);
  EXPECT_DOUBLE_EQ(bounds.computation, 16);
  EXPECT_DOUBLE_EQ(bounds.links, 16);
  EXPECT_DOUBLE_EQ(bounds.criticalPath, 16);
}

TEST(ListScheduler, FillsAWaitWithLaterWork) {
  UnitGraph graph;
  int32_t product = add(graph, 0, 2);
  int32_t sum = add(graph, 1, 3, {product});
  int32_t reader = add(graph, 0, 1, {sum});
  int32_t gradient = add(graph, 0, 3, {product});
  Schedule schedule = findSchedule(graph, {});
  expectLegal(graph, schedule);
  EXPECT_EQ(schedule.order,
            (std::vector<int32_t>{product, gradient, sum, reader}));
  EXPECT_DOUBLE_EQ(schedule.seconds, 6);
}

/// Two large tensors cannot live at the same time. The ready unit that frees
/// memory goes before the one that needs more.
TEST(ListScheduler, KeepsTheLimit) {
  UnitGraph graph;
  int32_t a = add(graph, 0, 1), b = add(graph, 0, 1);
  int32_t readsA = add(graph, 0, 1, {a}), readsB = add(graph, 0, 1, {b});
  add(graph, 0, 1, {readsA, readsB});
  graph.buffers = {{100, a, {readsA}}, {100, b, {readsB}}};
  std::vector<double> rank = {0, 1, 2, 3, 4};
  EXPECT_EQ(scheduleByRank(graph, rank, {1000}).peakBytes, 200);
  Schedule schedule = scheduleByRank(graph, rank, {100});
  expectLegal(graph, schedule);
  EXPECT_EQ(schedule.peakBytes, 100);
  EXPECT_EQ(schedule.order, (std::vector<int32_t>{a, readsA, b, readsB, 4}));
}

/// Weights are gathered for one product after the other. Without a limit, all
/// gathers follow each other; with one, only the next weight is there early.
TEST(ListScheduler, GathersAhead) {
  UnitGraph graph;
  int32_t product = -1;
  for (int layer = 0; layer < 6; ++layer) {
    int32_t gather = add(graph, 1, 1);
    graph.units[gather].isAhead = true;
    product = layer == 0 ? add(graph, 0, 2, {gather})
                         : add(graph, 0, 2, {gather, product});
    graph.buffers.push_back({100, gather, {product}});
  }
  std::vector<double> rank(graph.units.size());
  std::iota(rank.begin(), rank.end(), 0);
  EXPECT_EQ(scheduleByRank(graph, rank).peakBytes, 400);
  for (int64_t limit : {100, 10}) {
    Schedule schedule =
        scheduleByRank(graph, rank, {ScheduleLimits::kNone, limit});
    expectLegal(graph, schedule);
    EXPECT_EQ(schedule.peakBytes, 200) << limit;
    EXPECT_DOUBLE_EQ(schedule.seconds, 13) << limit;
  }
  // The limit of live bytes holds, too.
  Schedule schedule = scheduleByRank(graph, rank, {100});
  expectLegal(graph, schedule);
  EXPECT_EQ(schedule.peakBytes, 100);
  EXPECT_DOUBLE_EQ(schedule.seconds, 18);
}

/// Two weights of one product exceed the limit together. The second is gathered
/// when nothing else can run.
TEST(ListScheduler, GathersWhatAProductNeedsBeyondTheLimit) {
  UnitGraph graph;
  int32_t a = add(graph, 1, 1), b = add(graph, 1, 1);
  int32_t product = add(graph, 0, 1, {a, b});
  for (int32_t gather : {a, b}) {
    graph.units[gather].isAhead = true;
    graph.buffers.push_back({100, gather, {product}});
  }
  std::vector<double> rank = {0, 1, 2};
  Schedule schedule = scheduleByRank(graph, rank, {50, 100});
  expectLegal(graph, schedule);
  EXPECT_DOUBLE_EQ(schedule.seconds, 3);
}

TEST(ListScheduler, PartsTakeTurns) {
  UnitGraph graph = makeHalves(3);
  std::vector<double> turns = getTurns(graph);
  EXPECT_EQ(turns, (std::vector<double>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  Schedule schedule = scheduleByRank(graph, turns);
  expectLegal(graph, schedule);
  std::vector<int32_t> computations;
  for (int32_t unit : schedule.order)
    if (graph.units[unit].queue == 0)
      computations.push_back(unit);
  EXPECT_EQ(computations, (std::vector<int32_t>{0, 6, 2, 8, 4, 10}));
}

/// Layers of a transformer, forward and backward, for parts of a batch. The
/// computations take 1 in all, and so do the collectives. The forward pass has
/// a third of the former and half of the latter.
UnitGraph makeParts(int layers, int parts) {
  UnitGraph graph;
  int halves = 2 * layers; // attention and MLP
  double computes = 1. / 3 / (halves * parts), sends = 0.5 / (halves * parts);
  for (int part = 0; part < parts; ++part) {
    int32_t last = -1;
    for (int half = 0; half < halves; ++half) {
      last =
          last < 0 ? add(graph, 0, computes) : add(graph, 0, computes, {last});
      last = add(graph, 1, sends, {last});
    }
    for (int half = 0; half < halves; ++half) {
      int32_t gradient = last;
      last = add(graph, 0, computes, {gradient});
      last = add(graph, 1, sends, {last});
      add(graph, 0, computes, {gradient}); // the gradient of a weight
    }
  }
  return graph;
}

/// The first part's backward pass is beside the forward pass of the others, and
/// gradients of weights fill the waits. Without lags, all forward passes end
/// before a backward pass begins, and that takes 1.167.
TEST(ListScheduler, PartsLag) {
  for (auto [parts, seconds] : {std::pair(2, 1.1635), {3, 1.105}, {4, 1.077}}) {
    UnitGraph graph = makeParts(12, parts);
    Schedule schedule = findSchedule(graph, {});
    expectLegal(graph, schedule);
    EXPECT_LE(schedule.seconds, seconds) << parts;
  }
}

/// A search that must beat a known schedule finds nothing longer.
TEST(ListScheduler, GivesUpOnLongerSchedules) {
  UnitGraph graph = makeParts(4, 2);
  double seconds = findSchedule(graph, {}).seconds;
  EXPECT_FALSE(findShorterSchedule(graph, {}, seconds / 2));
  EXPECT_FALSE(findShorterSchedule(graph, {}, seconds));
  std::optional<Schedule> found = findShorterSchedule(graph, {}, 2 * seconds);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->order, findSchedule(graph, {}).order);
}

TEST(ListScheduler, RandomGraphsGetLegalSchedules) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    UnitGraph graph;
    auto count = static_cast<int32_t>(1 + random.below(40));
    for (int32_t i = 0; i < count; ++i) {
      llvm::SmallVector<int32_t> after;
      for (uint64_t k = i == 0 ? 0 : random.below(3); k > 0; --k)
        if (auto earlier = static_cast<int32_t>(random.below(i));
            !llvm::is_contained(after, earlier))
          after.push_back(earlier);
      add(graph, static_cast<int32_t>(random.below(3)),
          static_cast<double>(random.below(5)), after);
      UnitBuffer buffer;
      buffer.bytes = static_cast<int64_t>(random.below(100));
      buffer.writer = i;
      graph.buffers.push_back(buffer);
      for (int32_t earlier : after)
        graph.buffers[earlier].readers.push_back(i);
    }
    ScheduleOptions options;
    options.tries = 30;
    options.seed = seed;
    Schedule schedule = findSchedule(graph, options);
    expectLegal(graph, schedule);
    EXPECT_GE(schedule.seconds, getBounds(graph).get());
    EXPECT_LE(schedule.seconds, scheduleInSequence(graph).seconds);
    EXPECT_EQ(findSchedule(graph, options).order, schedule.order);
  }
}

} // namespace
