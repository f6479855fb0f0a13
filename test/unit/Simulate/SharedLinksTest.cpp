//===- SharedLinksTest.cpp - Links are shared as by the runtime -----------===//
//
// Collectives that run at the same time take as long in the simulator as on the
// runtime's emulated links (runtime/communicators/Network.h).
//
//===----------------------------------------------------------------------===//

#include "LinkTraffic.h"
#include "Programs.h"
#include "communicators/Network.h"
#include "heddle/Cost/Cluster.h"

#include <numeric>
#include <random>

using namespace heddle;

namespace {

/// A collective that begins at a time that products on the compute stream
/// decide, and its size.
struct Begun {
  std::string kind, axis;
  int milliseconds, elements;
};

/// Each member receives from the member before it.
std::vector<int32_t> getSources(int64_t members) {
  std::vector<int32_t> sources;
  for (int64_t i = 0; i < members; ++i)
    sources.push_back((i + members - 1) % members);
  return sources;
}

/// Returns the end of each collective if all groups begin it at the same time.
std::vector<double> emulate(const Cluster &cluster,
                            const MeshTopology &topology,
                            const std::vector<std::string> &axes,
                            const std::vector<Begun> &collectives) {
  runtime::Links links(*runtime::parseNetwork(writeCluster(cluster), "c"),
                       topology.getNumDevices());
  runtime::LinkSchedule schedule(links);
  std::vector<std::vector<std::shared_ptr<runtime::Flow>>> flows;
  double now = 0;
  for (const Begun &begun : collectives) {
    now += begun.milliseconds * 1e-3;
    AxisMask mask = 1u << (llvm::find(axes, begun.axis) - axes.begin());
    std::map<int64_t, std::vector<int32_t>> groups;
    for (int64_t device = 0; device < topology.getNumDevices(); ++device)
      groups[topology.getFirstOfGroup(device, mask)].push_back(device);
    auto &all = flows.emplace_back();
    for (auto &[first, ranks] : groups) {
      auto flow = std::make_shared<runtime::Flow>();
      int64_t bytes = 4 * begun.elements;
      std::vector<int32_t> sources = getSources(ranks.size());
      flow->traffic = begun.kind == "all_reduce" ? links.allReduce(ranks, bytes)
                      : begun.kind == "permute"
                          ? links.permute(ranks, sources.data(), bytes)
                          : links.broadcast(ranks, bytes);
      schedule.begin(flow, now);
      all.push_back(flow);
    }
  }
  std::vector<double> ends;
  for (const auto &all : flows) {
    ends.push_back(0);
    for (const auto &flow : all)
      ends.back() = std::max(ends.back(), flow->end);
  }
  return ends;
}

std::string getText(const Begun &begun, int stream, int64_t members) {
  std::string size = " : " + std::to_string(begun.elements) + "xf32]";
  // A permute must not work in place.
  std::string to = begun.kind == "permute" ? "arena[400000" : "arena[0";
  std::string text = "rt." + begun.kind + " stream(" + std::to_string(stream) +
                     ") " + (begun.kind == "all_reduce" ? "sum " : "") +
                     "arena[0" + size + " -> " + to + size;
  if (begun.kind == "broadcast")
    text += " root 0";
  if (begun.kind == "permute") {
    std::string list;
    for (int32_t source : getSources(members))
      list += (list.empty() ? "" : ", ") + std::to_string(source);
    text += " sources [" + list + "]";
  }
  return text + " over @mesh <{\"" + begun.axis +
         "\"}> serves <activation [\"" + std::to_string(stream) + "\"]>\n";
}

TEST(SharedLinks, TakeTheTimeOfTheEmulatedNetwork) {
  std::mt19937 random(7);
  std::vector<std::string> axes = {"dp", "cp", "tp"};
  for (int round = 0; round < 60; ++round) {
    // Four devices a unit, so that axes of a mesh of 2 x 4 x 4 span both
    // levels. All groups have the same load, so they end together.
    Cluster cluster = makeRoundCluster(4);
    cluster.levels[0].latency = 1e-5 * double(random() % 100);
    cluster.levels.push_back({"far", 8, 2e-5 * double(random() % 100),
                              20e6 + 1e6 * double(random() % 100),
                              1 + int64_t(random() % 3)});
    MeshTopology topology =
        llvm::cantFail(MeshTopology::create(cluster, {2, 4, 4}));
    std::vector<Begun> collectives;
    std::string body = record(0);
    for (int stream = 1; stream <= 5; ++stream) {
      const char *kinds[] = {"all_reduce", "broadcast", "permute"};
      Begun begun{kinds[random() % 3], axes[random() % 3], int(random() % 3),
                  int(4 * (1 + random() % 20000))};
      collectives.push_back(begun);
      if (begun.milliseconds > 0)
        body += product("x", 50 * begun.milliseconds, 9, 8);
      body += record(stream) + wait(stream, stream) +
              getText(begun, stream, begun.axis == "dp" ? 2 : 4) +
              record(100 + stream, stream);
    }
    for (int stream = 1; stream <= 5; ++stream)
      body += wait(100 + stream);
    Programs programs("heddle.mesh @mesh <[\"dp\"=2, \"cp\"=4, \"tp\"=4]>\n"
                      "rt.program @p arena(4000000) streams(6) {\n" +
                      body + "}\n");
    auto simulation = programs.run(cluster);
    ASSERT_TRUE(succeeded(simulation)) << body;
    std::vector<double> ends = emulate(cluster, topology, axes, collectives);
    for (size_t i = 0; i < ends.size(); ++i) {
      const SimulatedCall &call =
          simulation->calls[find(*simulation, std::to_string(i + 1))];
      EXPECT_NEAR(call.end, ends[i], 1e-9 * ends[i])
          << "round " << round << ", collective " << i;
    }
  }
}

TEST(SharedLinks, AloneTheyTakeTheTimeOfTheCostModel) {
  using Kind = CommunicationKind;
  for (auto [name, mesh] :
       {std::pair<const char *, std::vector<int64_t>>{"laptop-cpu", {2, 2}},
        {"dgx-a100:4", {4, 2, 4}},
        {"rtx3090", {8, 4}},
        {"rtx3090-nvlink:4", {2, 2, 4}}}) {
    Cluster cluster = llvm::cantFail(loadCluster(name));
    MeshTopology topology = llvm::cantFail(MeshTopology::create(cluster, mesh));
    LinkTraffic links(topology);
    std::vector<int64_t> devices(topology.getNumDevices());
    std::iota(devices.begin(), devices.end(), 0);
    for (AxisMask mask = 1; mask < 1u << mesh.size(); ++mask)
      for (int64_t bytes : {0, 12345, 100'000'000}) {
        SCOPED_TRACE(testing::Message() << name << ", axes " << mask);
        auto expectNear = [&](Kind kind, CollectiveCost cost) {
          Communication collective{kind, {}, bytes, {}};
          llvm::append_range(collective.axes, topology.listAxes(mask));
          double seconds =
              links.getSeconds(links.getTraffic(collective, devices)) +
              cluster.device.launch;
          EXPECT_NEAR(seconds, cost.seconds, 1e-9 * cost.seconds);
        };
        expectNear(Kind::AllReduce, topology.allReduce(mask, bytes));
        expectNear(Kind::AllGather, topology.allGather(mask, bytes));
        expectNear(Kind::ReduceScatter, topology.reduceScatter(mask, bytes));
        expectNear(Kind::AllToAll, topology.allToAll(mask, bytes));
        expectNear(Kind::Broadcast, topology.broadcast(mask, bytes));
      }
  }
}

} // namespace
