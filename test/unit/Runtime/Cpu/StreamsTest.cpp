//===- StreamsTest.cpp - Order of the calls of several streams ------------===//

#include "backends/Backends.h"
#include "backends/cpu/CpuDevice.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace heddle::runtime;

namespace {

/// The names of calls, in the order in which they ran.
struct Log {
  std::mutex mutex;
  std::string text;

  void add(char name) {
    std::lock_guard lock(mutex);
    text += name;
  }
};

/// A call that appends its name to a log, after a sleep.
struct Step {
  Log *log;
  char name;
  int milliseconds = 0;
};

void runStep(void *const *buffers, int64_t, int64_t) {
  const Step &step = *static_cast<const Step *>(buffers[1]);
  std::this_thread::sleep_for(std::chrono::milliseconds(step.milliseconds));
  step.log->add(step.name);
}

heddle_rt_status launch(heddle_rt_device &device, int32_t stream, Step &step) {
  void *buffers[] = {nullptr, &step};
  return heddle_rt_launch(&device, stream, runStep, buffers, 2, nullptr, 0, 1,
                          1);
}

/// Notes when its calls begin, end, and were ready.
class Noting final : public Communicator {
public:
  explicit Noting(int milliseconds) : milliseconds(milliseconds) {}

  int32_t groupSize(int32_t) const override { return 1; }
  Status perform(const Collective &call) override {
    ready = call.ready;
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    end = std::chrono::nanoseconds(
              std::chrono::steady_clock::now().time_since_epoch())
              .count();
    return Status::success();
  }
  void abort(const Status &) override {}

  int64_t ready = 0, end = 0;

private:
  int milliseconds;
};

// A wait that is over long before its turn ends no earlier than the collective
// in front of it.
TEST(Streams, WaitsEndAfterEarlierCollectives) {
  CpuDevice device(0, 1, false, 3);
  auto *first = new Noting(20), *second = new Noting(0);
  device.communicators.resize(3);
  device.communicators[1].reset(first);
  device.communicators[2].reset(second);
  Log log;
  Step a{&log, 'a'};
  launch(device, 0, a);
  heddle_rt_event_record(&device, 0, 0);
  float x = 0;
  heddle_rt_all_reduce(&device, 1, 0, HEDDLE_RT_SUM, HEDDLE_RT_F32, &x, &x, 1);
  heddle_rt_event_wait(&device, 1, 0);
  heddle_rt_event_record(&device, 1, 1);
  heddle_rt_event_wait(&device, 2, 1);
  heddle_rt_all_reduce(&device, 2, 0, HEDDLE_RT_SUM, HEDDLE_RT_F32, &x, &x, 1);
  ASSERT_TRUE(device.synchronize().ok());
  EXPECT_GE(second->ready, first->end);
}

TEST(Streams, EventsOrderThem) {
  CpuDevice device(0, 1, false, 3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    Log log;
    Step a{&log, 'a', 2}, b{&log, 'b', 1}, c{&log, 'c'}, d{&log, 'd'};
    launch(device, 0, a);
    heddle_rt_event_record(&device, 0, 0);
    heddle_rt_event_wait(&device, 1, 0);
    launch(device, 1, b);
    heddle_rt_event_record(&device, 1, 1);
    heddle_rt_event_wait(&device, 2, 1);
    launch(device, 2, c);
    heddle_rt_event_record(&device, 2, 2);
    heddle_rt_event_wait(&device, 0, 2);
    launch(device, 0, d);
    ASSERT_EQ(heddle_rt_synchronize(&device), 0);
    EXPECT_EQ(log.text, "abcd");
  }
}

TEST(Streams, AWaitRefersToTheLatestRecordBeforeIt) {
  CpuDevice device(0, 1, false, 3);
  Log log;
  Step a{&log, 'a'}, b{&log, 'b', 300}, c{&log, 'c', 50}, d{&log, 'd'};
  launch(device, 0, a);
  heddle_rt_event_record(&device, 0, 0);
  heddle_rt_event_wait(&device, 1, 0); // for a alone
  launch(device, 0, b);
  heddle_rt_event_record(&device, 0, 0); // a second time
  launch(device, 1, c);                  // ends long before b
  heddle_rt_event_wait(&device, 1, 0);   // for b
  launch(device, 1, d);
  heddle_rt_event_wait(&device, 2, 7); // never recorded
  ASSERT_EQ(heddle_rt_synchronize(&device), 0);
  EXPECT_EQ(log.text, "acbd");
}

TEST(Streams, RunAtTheSameTime) {
  // Each of two calls waits for the other.
  struct Meeting {
    std::atomic<int> arrived{0};
    std::atomic<int> met{0};
  } meeting;
  auto meet = [](void *const *buffers, int64_t, int64_t) {
    Meeting &meeting = *static_cast<Meeting *>(buffers[1]);
    ++meeting.arrived;
    for (int i = 0; i < 10'000 && meeting.arrived < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    meeting.met += meeting.arrived == 2;
  };
  CpuDevice device(0, 1, false, 2);
  void *buffers[] = {nullptr, &meeting};
  for (int32_t stream : {0, 1})
    heddle_rt_launch(&device, stream, meet, buffers, 2, nullptr, 0, 1, 1);
  ASSERT_EQ(heddle_rt_synchronize(&device), 0);
  EXPECT_EQ(meeting.met, 2);
}

TEST(Streams, TheHostWaitsForRoom) {
  for (StreamOrder::Kind kind :
       {StreamOrder::Kind::Natural, StreamOrder::Kind::Random}) {
    CpuDevice device(0, 1, false, 2, {kind, 1});
    // Entries of many sizes, which the end of the ring cuts anywhere.
    auto count = [](void *const *buffers, int64_t, int64_t) {
      auto &sums = *static_cast<int64_t(*)[2]>(buffers[1]);
      auto last = int64_t(reinterpret_cast<intptr_t>(buffers[2]));
      ++sums[0];
      sums[1] += int64_t(reinterpret_cast<intptr_t>(buffers[last]));
    };
    int64_t sums[2][2] = {}, expected = 0;
    for (int64_t i = 0; i < 20'000; ++i) {
      size_t last = size_t(3 + i % 97);
      std::vector<void *> buffers(last + 1);
      buffers[1] = &sums[i % 2];
      buffers[2] = reinterpret_cast<void *>(last);
      buffers[last] = reinterpret_cast<void *>(i);
      expected += i;
      ASSERT_EQ(heddle_rt_launch(&device, int32_t(i % 2), count, buffers.data(),
                                 int32_t(buffers.size()), nullptr, 0, 1, 1),
                0);
    }
    ASSERT_EQ(heddle_rt_synchronize(&device), 0);
    EXPECT_EQ(sums[0][0], 10'000);
    EXPECT_EQ(sums[1][0], 10'000);
    EXPECT_EQ(sums[0][1] + sums[1][1], expected);
  }
  CpuDevice device(0, 1, false);
  std::vector<void *> many(10'000);
  EXPECT_NE(heddle_rt_launch(&device, 0, runStep, many.data(), 10'000, nullptr,
                             0, 1, 1),
            0);
  EXPECT_EQ(device.error().message(),
            "launch: expected arguments of at most 65536 bytes, got 80128");
}

TEST(Streams, AnErrorDropsWhatHasNotStarted) {
  for (StreamOrder::Kind kind :
       {StreamOrder::Kind::Natural, StreamOrder::Kind::Earliest}) {
    CpuDevice device(0, 1, false, 2, {kind});
    Log log;
    Step a{&log, 'a', 20}, b{&log, 'b'};
    heddle_rt_matmul_desc bad{};
    launch(device, 0, a);
    heddle_rt_matmul(&device, 0, &bad, nullptr, nullptr, nullptr, nullptr);
    heddle_rt_event_record(&device, 0, 0);
    heddle_rt_event_wait(&device, 1, 0);
    launch(device, 1, b);
    launch(device, 0, b);
    EXPECT_NE(heddle_rt_synchronize(&device), 0);
    EXPECT_EQ(log.text, "a");
    EXPECT_EQ(device.error().message(),
              "matmul: expected m, n and k of at least 1, got 0, 0, 0");
    EXPECT_NE(launch(device, 0, b), 0);
  }
}

TEST(Streams, AStreamMustExist) {
  CpuDevice device(0, 1, false, 2);
  Log log;
  Step a{&log, 'a'};
  EXPECT_NE(launch(device, 2, a), 0);
  EXPECT_EQ(device.error().message(),
            "launch: stream 2 does not exist: the device has 2");
}

/// Issues a, b, c on stream 0, d, e, f on stream 1 and g on stream 2. g waits
/// for b. Returns the order in which they ran.
std::string orderOf(const StreamOrder &order) {
  CpuDevice device(0, 1, false, 3, order);
  Log log;
  std::vector<Step> steps;
  for (char name = 'a'; name <= 'g'; ++name)
    steps.push_back({&log, name});
  launch(device, 0, steps[0]);
  launch(device, 1, steps[3]);
  launch(device, 0, steps[1]);
  heddle_rt_event_record(&device, 0, 0);
  heddle_rt_event_wait(&device, 2, 0);
  launch(device, 2, steps[6]);
  launch(device, 1, steps[4]);
  launch(device, 1, steps[5]);
  launch(device, 0, steps[2]);
  EXPECT_EQ(heddle_rt_synchronize(&device), 0);
  return log.text;
}

TEST(Streams, RunInAChosenOrder) {
  EXPECT_EQ(orderOf({StreamOrder::Kind::Earliest}), "adbgefc");
  EXPECT_EQ(orderOf({StreamOrder::Kind::Latest}), "defabcg");
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    StreamOrder order{StreamOrder::Kind::Random, seed};
    std::string got = orderOf(order);
    EXPECT_EQ(got, orderOf(order));
    seen.insert(got);
    auto at = [&](char name) { return got.find(name); };
    EXPECT_EQ(got.size(), 7u);
    EXPECT_LT(at('a'), at('b'));
    EXPECT_LT(at('b'), at('c'));
    EXPECT_LT(at('d'), at('e'));
    EXPECT_LT(at('e'), at('f'));
    EXPECT_LT(at('b'), at('g'));
  }
  EXPECT_GT(seen.size(), 5u);
}

std::vector<std::unique_ptr<heddle_rt_device>>
makeTwoDevices(const StreamOrder &order) {
  DeviceOptions options;
  options.mesh = {{"x", 2}};
  options.groups = {GroupInfo{{0}, {}}};
  options.ranks = {0, 1};
  options.streams = 2;
  options.streamOrder = order;
  options.collectiveTimeout = std::chrono::seconds(60);
  auto devices = cpuBackend().makeDevices(options);
  EXPECT_TRUE(devices.ok());
  return std::move(*devices);
}

TEST(Streams, CollectivesAreMatchedByStream) {
  for (StreamOrder::Kind kind :
       {StreamOrder::Kind::Natural, StreamOrder::Kind::Earliest,
        StreamOrder::Kind::Latest, StreamOrder::Kind::Random}) {
    auto devices = makeTwoDevices({kind, 5});
    float values[2][4], sums[2][4];
    for (int i = 0; i < 4; ++i) {
      values[0][i] = float(i);
      values[1][i] = float(100 + 10 * i);
    }
    // Each device issues two collectives on each stream, but they begin with
    // different streams.
    for (size_t rank : {0, 1})
      for (int turn = 0; turn < 4; ++turn) {
        int32_t stream = int32_t((size_t(turn) + rank) % 2);
        size_t first = size_t(turn / 2) + size_t(stream) * 2;
        ASSERT_EQ(heddle_rt_all_reduce(devices[rank].get(), stream, 0,
                                       HEDDLE_RT_SUM, HEDDLE_RT_F32,
                                       &values[rank][first], &sums[rank][first],
                                       1),
                  0);
      }
    std::thread other(
        [&] { EXPECT_EQ(heddle_rt_synchronize(devices[1].get()), 0); });
    EXPECT_EQ(heddle_rt_synchronize(devices[0].get()), 0);
    other.join();
    for (size_t rank : {0, 1})
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(sums[rank][i], float(100 + 11 * i));
  }
}

TEST(Streams, AnOrderPoisonsOutputs) {
  auto devices = makeTwoDevices({StreamOrder::Kind::Latest});
  float one = 1, sums[2] = {5, 5};
  struct Read {
    float *from;
    std::atomic<bool> done{false};
    std::atomic<float> value{0};
  } read{&sums[0]};
  auto run = [](void *const *buffers, int64_t, int64_t) {
    Read &read = *static_cast<Read *>(buffers[1]);
    read.value = *read.from;
    read.done = true;
  };
  // Nothing orders the read and the collective, which cannot end before the
  // other device calls it.
  void *buffers[] = {nullptr, &read};
  heddle_rt_launch(devices[0].get(), 0, run, buffers, 2, nullptr, 0, 1, 1);
  heddle_rt_all_reduce(devices[0].get(), 1, 0, HEDDLE_RT_SUM, HEDDLE_RT_F32,
                       &one, &sums[0], 1);
  std::thread host(
      [&] { EXPECT_EQ(heddle_rt_synchronize(devices[0].get()), 0); });
  while (!read.done)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(std::isnan(read.value));
  heddle_rt_all_reduce(devices[1].get(), 1, 0, HEDDLE_RT_SUM, HEDDLE_RT_F32,
                       &one, &sums[1], 1);
  EXPECT_EQ(heddle_rt_synchronize(devices[1].get()), 0);
  host.join();
  EXPECT_EQ(sums[0], 2.0f);
  EXPECT_EQ(sums[1], 2.0f);
}

TEST(Streams, OrdersAreParsed) {
  EXPECT_EQ(parseStreamOrder("")->kind, StreamOrder::Kind::Natural);
  EXPECT_EQ(parseStreamOrder("earliest")->kind, StreamOrder::Kind::Earliest);
  EXPECT_EQ(parseStreamOrder("latest")->kind, StreamOrder::Kind::Latest);
  EXPECT_EQ(parseStreamOrder("random:17")->kind, StreamOrder::Kind::Random);
  EXPECT_EQ(parseStreamOrder("random:17")->seed, 17u);
  for (const char *bad : {"random", "random:", "random:x", "random:1x", "last"})
    EXPECT_EQ(parseStreamOrder(bad).message(),
              std::string("expected earliest, latest or random:SEED as the "
                          "order of streams, got ") +
                  bad);
}

} // namespace
