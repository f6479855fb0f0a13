//===- EmulatedLinksTest.cpp - Times on an emulated network ---------------===//
//
// Tests LinkSchedule with times that the test chooses, and communicators with
// the clock: a call must not return before the network allows it. How much
// later it returns depends on the machine (bench/links).
//
//===----------------------------------------------------------------------===//

#include "World.h"
#include "communicators/Collective.h"

#include <array>
#include <mutex>

using namespace heddle::runtime;

namespace {

/// Two servers of two devices. Inside 1000 bytes a second, between 100.
NetworkInfo twoServers() {
  return {"two servers", {{"server", 2, 0.5, 1000}, {"network", 2, 2, 100}}};
}

/// A flow that begins at `time` on the schedule.
std::shared_ptr<Flow> begin(LinkSchedule &schedule, Traffic traffic,
                            double time) {
  auto flow = std::make_shared<Flow>();
  flow->traffic = std::move(traffic);
  schedule.begin(flow, time);
  return flow;
}

TEST(LinkSchedule, ATransferTakesLatencyAndBytes) {
  Links links(twoServers(), 4);
  LinkSchedule schedule(links);
  EXPECT_DOUBLE_EQ(begin(schedule, links.transfer(0, 1, 1000), 0)->end, 1.5);
  EXPECT_DOUBLE_EQ(begin(schedule, links.transfer(0, 2, 1000), 10)->end, 22);
  EXPECT_DOUBLE_EQ(begin(schedule, links.transfer(0, 2, 0), 30)->end, 32);
  EXPECT_DOUBLE_EQ(begin(schedule, links.transfer(3, 3, 1000), 40)->end, 40);
}

TEST(LinkSchedule, CollectivesTakeTheTimesOfRings) {
  Links links(twoServers(), 4);
  const std::array<int32_t, 4> all{0, 1, 2, 3};
  const std::array<int32_t, 2> inside{2, 3};
  auto seconds = [&](Traffic traffic) {
    LinkSchedule schedule(links);
    return begin(schedule, std::move(traffic), 0)->end;
  };
  EXPECT_DOUBLE_EQ(seconds(links.allReduce(inside, 1000)), 2 * (0.5 + 0.5));
  // One message of the ring leaves each server, so two of four messages have
  // the latency of the network.
  const double latency = (0.5 + 2 + 0.5 + 2) / 4;
  EXPECT_DOUBLE_EQ(seconds(links.allReduce(all, 1001)), 6 * (latency + 2.51));
  EXPECT_DOUBLE_EQ(seconds(links.allGather(all, 300)), 3 * (latency + 3));
  EXPECT_DOUBLE_EQ(seconds(links.broadcast(all, 300)), 3 * latency + 3);
  // Shifts by 1 and 3 cross with one message, the shift by 2 with two.
  EXPECT_DOUBLE_EQ(seconds(links.allToAll(all, 100)), 3 * 2 + 1 + 2 + 1);
  const int32_t swap[4] = {2, 3, 0, 1}, rest[4] = {1, 0, -1, 3};
  EXPECT_DOUBLE_EQ(seconds(links.permute(all, swap, 100)), 2 + 2);
  EXPECT_DOUBLE_EQ(seconds(links.permute(all, rest, 100)), 0.5 + 0.1);
}

TEST(LinkSchedule, FlowsShareALink) {
  Links links({"one", {{"all", 4, 0, 100}}}, 4);
  LinkSchedule schedule(links);
  auto first = begin(schedule, links.transfer(0, 1, 1000), 0);
  EXPECT_DOUBLE_EQ(first->end, 10);
  // From second 4 on, both leave rank 0: 600 bytes at 50 a second.
  auto second = begin(schedule, links.transfer(0, 2, 1000), 4);
  EXPECT_DOUBLE_EQ(first->end, 16);
  // Then the second has the link for itself: 400 bytes.
  EXPECT_DOUBLE_EQ(second->end, 20);
  // The other direction, and other ranks, are other links.
  EXPECT_DOUBLE_EQ(begin(schedule, links.transfer(1, 0, 1000), 5)->end, 15);
  EXPECT_DOUBLE_EQ(begin(schedule, links.transfer(3, 3, 1000), 5)->end, 5);
  EXPECT_DOUBLE_EQ(first->end, 16);
  // A third transfer shares the arrivals at rank 2. It slows the transfers from
  // rank 0 only from its own bytes on.
  auto third = begin(schedule, links.transfer(3, 2, 100), 17);
  EXPECT_DOUBLE_EQ(third->end, 19);
  EXPECT_DOUBLE_EQ(second->end, 21);
}

TEST(LinkSchedule, LatencyOccupiesNoLink) {
  Links links({"one", {{"all", 3, 5, 100}}}, 3);
  LinkSchedule schedule(links);
  auto first = begin(schedule, links.transfer(0, 1, 1000), 0);
  auto second = begin(schedule, links.transfer(0, 2, 1000), 10);
  EXPECT_DOUBLE_EQ(first->end, 15);
  EXPECT_DOUBLE_EQ(second->end, 25);
}

TEST(LinkSchedule, RanksOfAServerShareItsLink) {
  Links links(twoServers(), 4);
  LinkSchedule schedule(links);
  const std::array<int32_t, 2> left{0, 2}, right{1, 3};
  auto one = begin(schedule, links.allReduce(left, 200), 0);
  EXPECT_DOUBLE_EQ(one->end, 2 * (2 + 1));
  auto other = begin(schedule, links.allReduce(right, 200), 0);
  EXPECT_DOUBLE_EQ(one->end, 2 * (2 + 2));
  EXPECT_DOUBLE_EQ(other->end, 2 * (2 + 2));
}

TEST(Network, MustHaveADeviceForEachRank) {
  EXPECT_EQ(Network::create(twoServers(), 5).message(),
            "expected a mesh of at most the 4 devices of the cluster 'two "
            "servers', got one of 5");
}

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Threads on a network with the latency and bandwidth of one level.
WorldOptions slowWorld(double latency, double bandwidth) {
  WorldOptions options{{{"dp", 2}, {"tp", 2}}, {{0, 1}, {1}}};
  options.network =
      *Network::create({"slow", {{"all", 4, latency, bandwidth}}}, 4);
  return options;
}

TEST(EmulatedLinks, ACollectiveCountsFromItsLastMember) {
  ThreadWorld world(slowWorld(0.005, 1e6));
  double entered = 0; // written before the collective by the last to enter
  world.run([&](int32_t rank, Communicator &communicator) {
    std::vector<float> x(1000, 1);
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      entered = seconds();
    }
    ASSERT_TRUE(communicator
                    .allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, x.data(),
                               x.data(), 1000)
                    .ok());
    // 6 steps of 5 ms and 1000 bytes.
    EXPECT_GE(seconds() - entered, 0.036);
    EXPECT_EQ(x[0], 4);
  });
}

TEST(EmulatedLinks, ACollectiveCountsFromItsData) {
  // 6 steps of 50 ms and 1 ms.
  ThreadWorld world(slowWorld(0.05, 1e6));
  double ready = seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  world.run([&](int32_t, Communicator &communicator) {
    std::vector<float> x(1000, 1);
    auto sum = [&] {
      ASSERT_TRUE(communicator
                      .perform({.kind = Collective::Kind::AllReduce,
                                .in = x.data(),
                                .out = x.data(),
                                .count = 1000,
                                .ready = int64_t(ready * 1e9)})
                      .ok());
    };
    double before = seconds();
    sum();
    EXPECT_GE(seconds() - ready, 0.306);
    EXPECT_LT(seconds() - before, 0.306);
    // The links are busy with the first one until it ends.
    sum();
    EXPECT_GE(seconds() - ready, 0.612);
  });
}

TEST(EmulatedLinks, EveryCallTakesItsTime) {
  // 1000 floats take 4 ms.
  ThreadWorld world(slowWorld(0, 1e6));
  const int32_t sources[4] = {1, 2, 3, 0};
  world.run([&](int32_t rank, Communicator &c) {
    std::vector<float> small(1000), large(4000);
    auto takes = [&](double least, auto call) {
      double before = seconds();
      EXPECT_TRUE(call().ok());
      EXPECT_GE(seconds() - before, least);
    };
    takes(0.012, [&] {
      return c.allGather(0, HEDDLE_RT_F32, small.data(), large.data(), 1000);
    });
    takes(0.012, [&] {
      return c.reduceScatter(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, large.data(),
                             small.data(), 1000);
    });
    takes(0.012, [&] {
      std::vector<float> other(4000);
      return c.allToAll(0, HEDDLE_RT_F32, large.data(), other.data(), 1000);
    });
    takes(0.016, [&] {
      return c.broadcast(0, 3, HEDDLE_RT_F32, large.data(), large.data(), 4000);
    });
    takes(0.016, [&] {
      std::vector<float> other(4000);
      return c.permute(0, sources, HEDDLE_RT_F32, large.data(), other.data(),
                       4000);
    });
    // The sender may have begun long before the receiver.
    takes(rank % 2 ? 0.016 : 0, [&] {
      return rank % 2 ? c.send(1, 0, HEDDLE_RT_F32, large.data(), 4000)
                      : c.recv(1, 1, HEDDLE_RT_F32, large.data(), 4000);
    });
  });
}

TEST(EmulatedLinks, GroupsThatShareALinkWaitLonger) {
  // Both groups {0, 2} and {1, 3} go through the server's only link.
  WorldOptions options{{{"dp", 2}, {"tp", 2}}, {{0}}};
  options.network = *Network::create(
      {"servers", {{"server", 2, 0, 1e9}, {"network", 2, 0, 1e6}}}, 4);
  ThreadWorld world(options);
  // The link carries 2 x 20 kB from the first entry on.
  std::mutex mutex;
  double first = std::numeric_limits<double>::infinity(), last = 0;
  world.run([&](int32_t, Communicator &communicator) {
    std::vector<float> x(5000, 1);
    double before = seconds();
    ASSERT_TRUE(communicator
                    .allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, x.data(),
                               x.data(), 5000)
                    .ok());
    std::lock_guard lock(mutex);
    first = std::min(first, before);
    last = std::max(last, seconds());
  });
  EXPECT_GE(last - first, 0.040);
}

TEST(EmulatedLinks, ATransferCountsFromItsSend) {
  ThreadWorld world(slowWorld(0, 1e6));
  double sent = 0; // written by the sender before it sends
  world.run([&](int32_t rank, Communicator &communicator) {
    std::vector<float> x(5000);
    if (rank == 0) {
      sent = seconds();
      ASSERT_TRUE(communicator.send(0, 2, HEDDLE_RT_F32, x.data(), 5000).ok());
      EXPECT_GE(seconds() - sent, 0.020);
    }
    if (rank == 2) {
      ASSERT_TRUE(communicator.recv(0, 0, HEDDLE_RT_F32, x.data(), 5000).ok());
      EXPECT_GE(seconds() - sent, 0.020);
    }
  });
}

TEST(EmulatedLinks, AnAbortWakesWhoSleeps) {
  // The transfer takes 100 s. The abort may come before it has begun.
  ThreadWorld world(slowWorld(100, 1e6));
  auto isFineOrAborted = [](const Status &status) {
    return status.ok() || status.message() == "device 3: out of luck";
  };
  double before = seconds();
  world.run([&](int32_t rank, Communicator &communicator) {
    float x = 0;
    if (rank == 0)
      EXPECT_TRUE(
          isFineOrAborted(communicator.send(0, 1, HEDDLE_RT_F32, &x, 1)));
    if (rank == 1) {
      EXPECT_TRUE(
          isFineOrAborted(communicator.recv(0, 0, HEDDLE_RT_F32, &x, 1)));
      EXPECT_EQ(communicator.recv(0, 0, HEDDLE_RT_F32, &x, 1).message(),
                "device 3: out of luck");
    }
    if (rank == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      communicator.abort(error("device 3: out of luck"));
    }
  });
  EXPECT_LT(seconds() - before, 50);
}

/// A communicator whose calls return at once, on every rank.
class EagerBroadcast final : public Communicator {
public:
  int32_t groupSize(int32_t) const override { return 3; }
  Status perform(const Collective &) override { return Status::success(); }
  void abort(const Status &) override {}
};

TEST(EmulatedLinks, ARankThatIsDoneWaitsForTheOthersToEnter) {
  std::vector<MeshAxis> mesh{{"x", 3}};
  std::vector<std::vector<std::unique_ptr<Communicator>>> inner(3);
  for (auto &ofRank : inner)
    ofRank.push_back(std::make_unique<EagerBroadcast>());
  auto ranks = emulateLinks(std::move(inner), mesh, {GroupInfo{{0}, {}}},
                            *Network::create({"fast", {{"all", 3, 0, 1e9}}}, 3),
                            std::chrono::milliseconds(100));
  EXPECT_EQ(ranks[1][0]
                ->broadcast(0, 1, HEDDLE_RT_F32, nullptr, nullptr, 1)
                .message(),
            "device 0, 2 did not arrive at broadcast within 0.1 s: it is hung "
            "or dead, or runs another program");
}

TEST(NetworkInfo, ReadsTheLevelsOfACluster) {
  const std::string text = R"({"version": 1, "name": "c",
    "device": {"kind": "GPU", "memory": 1e9, "memory_bandwidth": 1e12,
               "peak": {"f32": 1e13},
               "efficiency": {"peak": 0.5, "memory_bandwidth": 0.25}},
    "levels": [{"name": "server", "count": 4, "latency": 1e-6,
                "bandwidth": 1e9, "links": 3},
               {"name": "network", "count": 2, "latency": 1e-5,
                "bandwidth": 1e8, "efficiency": 0.5}]})";
  auto network = parseNetwork(text, "c.json");
  ASSERT_TRUE(network.ok()) << network.message();
  EXPECT_EQ(network->numDevices(), 8);
  EXPECT_EQ(network->levels[0].name, "server");
  EXPECT_EQ(network->levels[0].latency, 1e-6);
  EXPECT_EQ(network->levels[0].bandwidth, 3e9);
  EXPECT_EQ(network->levels[1].bandwidth, 0.5e8);
  EXPECT_EQ(network->device.peakOf("f32"), 0.5e13);
  EXPECT_EQ(network->device.memoryBandwidth, 0.25e12);

  auto edited = [&](std::string from, std::string to) {
    std::string copy = text;
    copy.replace(copy.find(from), from.size(), to);
    return std::string(parseNetwork(copy, "c.json").message());
  };
  EXPECT_EQ(edited("\"links\"", "\"lanes\""),
            "c.json: $.levels[0].lanes: unknown key, expected one of name, "
            "count, latency, bandwidth, links, efficiency");
  EXPECT_EQ(edited("\"kind\"", "\"king\""),
            "c.json: $.device.king: unknown key, expected one of kind, memory, "
            "memory_bandwidth, peak, launch, efficiency");
  EXPECT_EQ(edited("1e-5", "-1"), "c.json: $.levels[1].latency: expected a "
                                  "number, 0 or more, got -1");
  EXPECT_EQ(readNetwork("no/such.json").message(),
            "cluster 'no/such.json': No such file or directory");
  EXPECT_EQ(readNetwork(".").message(), "cluster '.': Is a directory");
}

} // namespace
