//===- GpuLinksTest.cpp - Emulated links of ranks on a GPU ----------------===//
//
// The emulated GPU's clock is that of the host. Communication must take at
// least the time of the links. How much longer it takes depends on the machine.
//
//===----------------------------------------------------------------------===//

#include "backends/cuda/CudaCommunicator.h"
#include "test/support/EmulatedCuda/EmulatedCuda.h"
#include "test/unit/Runtime/Communicators/World.h"

#include <array>
#include <thread>

using namespace heddle;
using namespace heddle::runtime;

namespace {

using Load = cuda::FlowTimes::Load;

int64_t now() {
  return std::chrono::nanoseconds(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TEST(GpuLinks, TimesOfAFlow) {
  // Two servers of two devices.
  Links links({"two servers", {{"server", 2, 1, 100}, {"network", 2, 2, 10}}},
              4);
  cuda::FlowTimes transfer = cuda::timesOf(links.transfer(1, 0, 50), links);
  EXPECT_EQ(transfer.latency, 1'000'000'000);
  EXPECT_EQ(transfer.alone, 1'500'000'000);
  EXPECT_EQ(transfer.loads,
            (std::vector<Load>{{1, 500'000'000}, {2, 500'000'000}}));
  // Shifts by 1 and 3 cross with one message, the shift by 2 with two. The
  // links in a server carry one message in each of the shifts by 1 and 3.
  const std::array<int32_t, 4> all{0, 1, 2, 3};
  cuda::FlowTimes exchange = cuda::timesOf(links.allToAll(all, 10), links);
  EXPECT_EQ(exchange.latency, 6'000'000'000);
  EXPECT_EQ(exchange.alone, 10'000'000'000);
  EXPECT_EQ(exchange.loads.back().busy, 4'000'000'000);
  // Nothing is sent.
  const int32_t none[4] = {0, -1, -1, 3};
  cuda::FlowTimes empty = cuda::timesOf(links.permute(all, none, 10), links);
  EXPECT_EQ(empty.alone, 0);
  EXPECT_TRUE(empty.loads.empty());
}

/// Four ranks on a network of one level.
std::unique_ptr<World> slowWorld(double latency, double bandwidth) {
  WorldOptions options{{{"dp", 2}, {"tp", 2}}, {{0, 1}, {1}}};
  options.network =
      *Network::create({"slow", {{"all", 4, latency, bandwidth}}}, 4);
  return communicatorBackends().front().make(options);
}

TEST(GpuLinks, EveryCallTakesItsTime) {
  // 1000 floats take 4 ms.
  std::unique_ptr<World> world = slowWorld(0.001, 1e6);
  const int32_t sources[4] = {1, 2, 3, 0};
  world->run([&](int32_t rank, Communicator &c) {
    std::vector<float> small(1000, float(rank)), large(4000), other(4000);
    auto takes = [&](double least, auto call) {
      int64_t before = now();
      Status status = call();
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_GE(double(now() - before) * 1e-9, least);
    };
    takes(0.015, [&] {
      return c.allGather(0, HEDDLE_RT_F32, small.data(), large.data(), 1000);
    });
    EXPECT_EQ(large[2500], 2);
    takes(0.015, [&] {
      return c.reduceScatter(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, large.data(),
                             small.data(), 1000);
    });
    EXPECT_EQ(small[7], float(4 * rank));
    takes(0.012, [&] {
      return c.allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, small.data(),
                         small.data(), 1000);
    });
    EXPECT_EQ(small[7], 24);
    takes(0.015, [&] {
      return c.allToAll(0, HEDDLE_RT_F32, large.data(), other.data(), 1000);
    });
    EXPECT_EQ(other[7], float(rank));
    takes(0.019, [&] {
      return c.broadcast(0, 3, HEDDLE_RT_F32, other.data(), other.data(), 4000);
    });
    EXPECT_EQ(other[7], 3);
    takes(0.017, [&] {
      return c.permute(0, sources, HEDDLE_RT_F32, large.data(), other.data(),
                       4000);
    });
    // The sender may have begun long before the receiver. Messages follow each
    // other on the link, and a later one uses the memory of an earlier one.
    for (int i = 0; i < 2; ++i)
      takes(rank % 2 ? 0.005 : 0, [&] {
        return rank % 2 ? c.send(1, 0, HEDDLE_RT_F32, small.data(), 1000)
                        : c.recv(1, 1, HEDDLE_RT_F32, small.data(), 1000);
      });
  });
}

/// Ranks with two streams, and clocks of three devices' links.
class LinkClocksTest : public ::testing::Test {
protected:
  void SetUp() override {
    auto card = cuda::Card::open({emulated::getDriver()});
    ASSERT_TRUE(card.ok()) << card.message();
    auto kernels = std::make_shared<const std::vector<cuda::LoadedKernel>>();
    for (auto *each : {&device, &peer}) {
      *each =
          std::make_unique<cuda::CudaDevice>(each == &peer, *card, kernels, 1);
      ASSERT_TRUE((*each)->start(2).ok());
    }
    clocks = clocksOf(0.002);
    ASSERT_TRUE(clocks);
    ends = *device->reserve(3 * sizeof(uint64_t));
  }
  void TearDown() override {
    peer.reset();
    device.reset();
    EXPECT_EQ(emulated::takeFault(), "");
  }
  /// Links of some latency, in seconds. The timeout is 20 s.
  std::shared_ptr<const cuda::LinkClocks> clocksOf(double latency) {
    Links links({"all", {{"all", 3, latency, 1e6}}}, 3);
    auto made =
        cuda::LinkClocks::create(*device, links, std::chrono::seconds(20));
    EXPECT_TRUE(made.ok()) << made.message();
    return made.ok() ? *made : nullptr;
  }
  std::unique_ptr<Communicator>
  communicatorOf(cuda::CudaDevice &rank,
                 std::shared_ptr<const cuda::LinkClocks> links) {
    std::vector<GroupView> views{{{0, 1}, rank.rank}};
    return std::make_unique<cuda::CudaCommunicator>(rank, 0, views, meetings,
                                                    std::move(links));
  }
  static cuda::Address after(cuda::Address address, int64_t numbers) {
    return address + uint64_t(numbers) * sizeof(uint64_t);
  }

  const std::shared_ptr<cuda::Meetings> meetings =
      std::make_shared<cuda::Meetings>(std::chrono::seconds(20));
  std::unique_ptr<cuda::CudaDevice> device, peer;
  std::shared_ptr<const cuda::LinkClocks> clocks;
  cuda::Address ends = 0;
};

TEST_F(LinkClocksTest, FlowsOfALinkFollowEachOther) {
  const Links &links = clocks->links();
  int64_t before = now();
  // Two transfers of 100 ms leave rank 0, on streams in any order. One of 10 ms
  // uses the other direction of a link.
  ASSERT_TRUE(
      clocks->begin(*device, 0, links.transfer(0, 1, 100'000), ends).ok());
  ASSERT_TRUE(
      clocks->begin(*device, 1, links.transfer(0, 2, 100'000), after(ends, 1))
          .ok());
  ASSERT_TRUE(
      clocks->begin(*device, 1, links.transfer(1, 0, 10'000), after(ends, 2))
          .ok());
  ASSERT_TRUE(device->synchronize().ok());
  int64_t begun = now(), end[3];
  ASSERT_TRUE(
      device->copyToHost(end, reinterpret_cast<void *>(ends), sizeof end).ok());
  auto [first, second] = std::minmax(end[0], end[1]);
  EXPECT_GE(first, before + 102'000'000);
  EXPECT_LE(first, begun + 102'000'000);
  EXPECT_GE(second, first + 100'000'000);
  EXPECT_LE(second, begun + 202'000'000);
  EXPECT_GE(end[2], before + 12'000'000);
  EXPECT_LE(end[2], begun + 12'000'000);
}

TEST_F(LinkClocksTest, TheReceiverWaitsForTheLink) {
  auto sender = communicatorOf(*device, clocks);
  auto receiver = communicatorOf(*peer, clocks);
  auto data = *device->allocate(4000), copy = *peer->allocate(4000);
  // Nobody waits for the sender's stream. It may run behind the receiver's.
  for (int i = 0; i < 16; ++i) {
    int64_t before = now();
    ASSERT_TRUE(sender->send(0, 1, HEDDLE_RT_F32, data->data(), 250).ok());
    ASSERT_TRUE(receiver->recv(0, 0, HEDDLE_RT_F32, copy->data(), 250).ok());
    ASSERT_TRUE(peer->synchronize().ok());
    EXPECT_GE(now() - before, 3'000'000);
  }
}

TEST_F(LinkClocksTest, ARepeatedGraphWaitsAgain) {
  emulated::takeCounts();
  for (int run = 0; run < 4; ++run) {
    int64_t before = now();
    auto isDone = device->beginRun(0);
    ASSERT_TRUE(isDone.ok()) << isDone.message();
    if (!*isDone) {
      ASSERT_TRUE(
          clocks->begin(*device, 1, clocks->links().transfer(0, 1, 3000), ends)
              .ok());
      ASSERT_TRUE(clocks->end(*device, 1, ends).ok());
      ASSERT_TRUE(device->endRun().ok());
    }
    ASSERT_TRUE(device->synchronize().ok());
    EXPECT_GE(now() - before, 5'000'000) << run;
  }
  EXPECT_EQ(emulated::takeCounts().graphLaunches, 3);
}

TEST_F(LinkClocksTest, AFlowBeyondTheTimeoutIsRefused) {
  auto sender = communicatorOf(*device, clocks);
  auto data = *device->allocate(4);
  Status status = sender->send(0, 1, HEDDLE_RT_F32, data->data(), 6'000'000);
  EXPECT_EQ(status.message(),
            "send of 24000000 bytes: expected at most 20 s on the emulated "
            "links, the timeout of collectives, got 24.002 s: raise the "
            "bandwidth of the emulated cluster");
}

TEST_F(LinkClocksTest, OtherStreamsGoOnUntilAFailureEndsTheFlow) {
  int64_t before = now();
  auto sender = communicatorOf(*device, clocksOf(15));
  auto data = *device->allocate(4), other = *device->allocate(4);
  ASSERT_TRUE(sender->send(0, 1, HEDDLE_RT_F32, data->data(), 1).ok());
  const cuda::Driver &driver = device->gpu().driver();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(device->fillZero(1, other->data(), 4).ok());
    ASSERT_EQ(driver.streamSynchronize(device->stream(1)), cuda::kSuccess);
  }
  EXPECT_LT(now() - before, 10'000'000'000);
  // Another thread already waits for the stream of the flow.
  std::thread waiting([&] { EXPECT_TRUE(device->synchronize().ok()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  sender->abort(error("another rank has failed"));
  waiting.join();
  EXPECT_LT(now() - before, 10'000'000'000);
}

} // namespace
