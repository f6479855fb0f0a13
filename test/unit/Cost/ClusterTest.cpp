//===- ClusterTest.cpp - Clusters as text, and what collectives cost ------===//

#include "heddle/Cost/ClusterChoice.h"
#include "heddle/Cost/CollectiveCost.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace heddle;

namespace {

std::string errorOf(llvm::Expected<Cluster> cluster) {
  return cluster ? "" : llvm::toString(cluster.takeError());
}

/// Returns the canonical text of a cluster of two servers of four devices, with
/// `from` replaced by `to`.
std::string textWith(llvm::StringRef from, llvm::StringRef to) {
  Cluster cluster{
      "two",
      {"GPU", 1 << 30, 1e12, 0, {{"f32", 1e13}}},
      {{"server", 4, 1e-6, 1e11, 1}, {"network", 2, 1e-5, 1e10, 2}}};
  std::string text = writeCluster(cluster);
  size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from.str();
  return text.replace(found, from.size(), to);
}

Cluster makeCluster() {
  return llvm::cantFail(parseCluster(textWith("two", "two"), "c.json"));
}

TEST(Cluster, RewritesTheSameBytes) {
  for (const std::string &name : getClusterPresets()) {
    Cluster preset = llvm::cantFail(loadCluster(name));
    EXPECT_EQ(preset.name, name);
    std::string text = writeCluster(preset);
    EXPECT_EQ(writeCluster(llvm::cantFail(parseCluster(text, "c.json"))), text);
  }
}

TEST(Cluster, PresetsHaveTheirSizes) {
  EXPECT_EQ(llvm::cantFail(loadCluster("rtx3090")).getNumDevices(), 32);
  EXPECT_EQ(llvm::cantFail(loadCluster("rtx3090-nvlink")).getNumDevices(), 32);
  EXPECT_EQ(llvm::cantFail(loadCluster("dgx-a100:16")).getNumDevices(), 128);
  EXPECT_EQ(llvm::cantFail(loadCluster("dgx-h100:1")).getNumDevices(), 8);
}

TEST(Cluster, DevicesOfSeveralKinds) {
  Cluster cluster{
      "two", {}, {{"server", 2, 1e-6, 1e11, 1}, {"network", 3, 1e-5, 1e10, 1}}};
  cluster.groups = {
      {{"A", 100, 4e12, 2e-6, {{"f32", 8e13}, {"bf16", 3e14}}, {0.5, 0.5}}, 2},
      {{"B", 200, 1e12, 1e-6, {{"f32", 1e13}}}, 4}};
  std::string text = writeCluster(cluster);
  cluster = llvm::cantFail(parseCluster(text, "c.json"));
  EXPECT_EQ(writeCluster(cluster), text);
  // The weakest in each figure, at the rates that programs reach.
  EXPECT_EQ(cluster.device.kind, "A or B");
  EXPECT_EQ(cluster.device.memory, 100);
  EXPECT_EQ(cluster.device.getMemoryRate(), 1e12);
  EXPECT_EQ(cluster.device.launch, 2e-6);
  EXPECT_EQ(cluster.device.peak,
            (std::map<std::string, double>{{"f32", 1e13}}));
  EXPECT_EQ(cluster.getDeviceOf({0, 1}).kind, "A");
  EXPECT_EQ(cluster.getDeviceOf({0, 1}).peak.count("bf16"), 1u);
  EXPECT_EQ(cluster.getDeviceOf({2, 5}).memory, 200);
  EXPECT_EQ(cluster.getDeviceOf({1, 2}).kind, "A or B");
  ClusterDevice strongest = cluster.getStrongest();
  EXPECT_EQ(strongest.memory, 200);
  EXPECT_EQ(strongest.getMemoryRate(), 2e12);
  EXPECT_EQ(strongest.launch, 1e-6);
  EXPECT_EQ(strongest.peak.at("f32"), 4e13);
}

TEST(Cluster, FirstDevicesHaveTheirOwnFigures) {
  ClusterDevice x{"x", 8, 300, 1, {{"f32", 2}, {"bf16", 4}}};
  ClusterDevice y{"y", 16, 100, 2, {{"f32", 20}, {"bf16", 40}}};
  ClusterDevice z{"z", 1, 10, 3, {{"f32", 1}}};
  Cluster cluster{"c", {}, {{"a", 6, 0, 1}}};
  cluster.groups = {{x, 2}, {y, 2}, {z, 2}};
  cluster.device = cluster.getWeakest();
  Cluster three = cluster.getFirst(3);
  ASSERT_EQ(three.groups.size(), 2u);
  EXPECT_EQ(three.groups[1].count, 1);
  EXPECT_EQ(three.device.memory, 8);
  EXPECT_EQ(three.device.memoryBandwidth, 100);
  EXPECT_EQ(three.device.launch, 2);
  EXPECT_EQ(three.device.peak.at("bf16"), 4);
  EXPECT_EQ(three.getStrongest().memory, 16);
  EXPECT_EQ(three.getNumDevices(), 6);
  EXPECT_EQ(cluster.getFirst(6).device.memory, 1);
  EXPECT_EQ(cluster.getFirst(6).groups.size(), 3u);
  EXPECT_EQ(cluster.getFirst(2).groups.size(), 1u);
}

TEST(Cluster, EfficienciesScaleRates) {
  auto parse = [](llvm::StringRef from, llvm::StringRef to) {
    return llvm::cantFail(parseCluster(textWith(from, to), "c.json"));
  };
  Cluster cluster =
      parse("\"launch\"", "\"efficiency\": {\"peak\": 0.5, "
                          "\"memory_bandwidth\": 0.25}, \"launch\"");
  EXPECT_EQ(cluster.device.getMemoryRate(), 0.25e12);
  EXPECT_EQ(parse("\"links\": 2", "\"links\": 2, \"efficiency\": 0.5")
                .levels[1]
                .getUnitRate(),
            1e10);
  EXPECT_EQ(
      errorOf(parseCluster(
          textWith("\"links\": 2", "\"links\": 2, \"efficiency\": 1.5"), "c")),
      "c: $.levels[1].efficiency: expected a share above 0 and at most 1, "
      "got 1.5");
  EXPECT_EQ(
      errorOf(parseCluster(
          textWith("\"launch\"", "\"efficiency\": {\"links\": 1}, \"launch\""),
          "c")),
      "c: $.device.efficiency.links: unknown key, expected one of peak, "
      "memory_bandwidth");
}

TEST(Cluster, ChoiceReadsItsFileOnce) {
  EXPECT_TRUE(ClusterChoice().isNone());
  llvm::SmallString<64> path;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("cluster", "json", path));
  auto write = [&](llvm::StringRef text) {
    std::error_code failure;
    llvm::raw_fd_ostream(path, failure) << text;
    ASSERT_FALSE(failure);
  };
  write(textWith("two", "first"));
  ClusterChoice choice(path.str().str());
  ClusterChoice copy = choice;
  EXPECT_EQ(llvm::cantFail(copy.load()).name, "first");
  write(textWith("two", "second"));
  EXPECT_EQ(llvm::cantFail(choice.load()).name, "first");
  EXPECT_EQ(llvm::cantFail(ClusterChoice(path.str().str()).load()).name,
            "second");
  llvm::sys::fs::remove(path);
}

// Passes and programs on one cluster share what was searched for. Another
// memory makes another choice, because topologies state it, too.
TEST(Cluster, CopiesOfAChoiceShareReshardings) {
  ClusterChoice choice(llvm::cantFail(loadCluster("dgx-a100:1")));
  ClusterChoice copy = choice;
  auto known = llvm::cantFail(choice.getReshardings({2, 4}, /*closed=*/0));
  const TensorLayout whole{{{}}}, split{{{0}}};
  const Resharding *found = &known->find({8}, 4, split, whole);
  EXPECT_EQ(found->steps.size(), 1u);
  EXPECT_EQ(found->cost.seconds, ReshardingPlanner(known->getTopology())
                                     .find({8}, 4, split, whole)
                                     .cost.seconds);
  EXPECT_NE(llvm::cantFail(copy.getReshardings({4, 2}, 0)), known);
  EXPECT_NE(llvm::cantFail(copy.getReshardings({2, 4}, 1)), known);
  auto again = llvm::cantFail(copy.getReshardings({2, 4}, 0));
  EXPECT_EQ(again, known);
  EXPECT_EQ(&again->find({8}, 4, split, whole), found);
  // Only the latest meshes are kept.
  for (int64_t size : {1, 2, 4, 8})
    llvm::cantFail(choice.getReshardings({size}, 0));
  EXPECT_NE(llvm::cantFail(choice.getReshardings({2, 4}, 0)), known);
  EXPECT_EQ(
      llvm::toString(choice.getReshardings({16}, 0).takeError()),
      "expected a mesh of at most the 8 devices of the cluster 'dgx-a100', "
      "got one of 16");
}

TEST(Cluster, ErrorsNameThePath) {
  EXPECT_EQ(errorOf(parseCluster("{\"version\": 1\n \"name\"", "c.json")),
            "c.json:2:7: expected JSON: syntax error while parsing object - "
            "unexpected string literal; expected '}'");
  EXPECT_EQ(errorOf(parseCluster("{\"version\":\n 1e999}", "c.json")),
            "c.json:2:2: expected a number that a double can hold, got 1e999");
  EXPECT_EQ(
      errorOf(parseCluster(textWith("\"launch\"", "\"lunch\""), "c.json")),
      "c.json: $.device.lunch: unknown key, expected one of kind, memory, "
      "memory_bandwidth, peak, launch, efficiency");
  EXPECT_EQ(
      errorOf(parseCluster(textWith("1e-06", "-1"), "c.json")),
      "c.json: $.levels[0].latency: expected a number, 0 or more, got -1");
  EXPECT_EQ(errorOf(parseCluster(textWith("\"count\": 2", "\"count\": 0"), "")),
            "cluster: $.levels[1].count: expected a whole number from 1 to "
            "16777216, got 0");
  EXPECT_EQ(
      errorOf(
          parseCluster(textWith("\"count\": 2", "\"count\": 8388608"), "c")),
      "c: $.levels[1].count: expected at most 16777216 devices in all, got "
      "33554432");
  EXPECT_EQ(
      errorOf(parseCluster(textWith("\"version\": 1", "\"version\": 2"), "c")),
      "c: $.version: expected 1, got 2");
  EXPECT_EQ(errorOf(parseCluster(textWith("\"network\"", "\"server\""), "c")),
            "c: $.levels[1].name: expected names that differ, got \"server\" "
            "twice");
  EXPECT_EQ(errorOf(parseCluster(textWith("f32", "f31"), "c")),
            "c: $.device.peak.f31: expected f64, f32, tf32, f16, bf16, f8 or "
            "i8");
  EXPECT_EQ(errorOf(parseCluster(textWith("\"version\": 1,", ""), "c")),
            "c: $: expected a \"version\"");
  EXPECT_EQ(
      errorOf(parseCluster(
          textWith("\"version\": 1,", "\"version\": 1, \"version\": 1,"), "c")),
      "c:2:17: expected each key once, got \"version\" twice");
  EXPECT_NE(errorOf(loadCluster("dgx")).find("rtx3090, rtx3090-nvlink"),
            std::string::npos);
  EXPECT_NE(errorOf(loadCluster("dgx-a100:0")).find("after the colon, got '0'"),
            std::string::npos);
}

// On equally near devices, costs are those of the literature's ring algorithms.
TEST(CollectiveCost, RingsOnEqualDevices) {
  Cluster cluster = makeUniformCluster(8);
  double launch = 10e-6, alpha = 5e-6, beta = 1 / 25e9;
  auto topology = llvm::cantFail(MeshTopology::create(cluster, {2, 4}));
  CollectiveCost gather = topology.allGather(0b10, 1000);
  EXPECT_DOUBLE_EQ(gather.seconds, launch + 3 * (alpha + 1000 * beta));
  EXPECT_EQ(gather.bytes, 3000);
  CollectiveCost reduce = topology.allReduce(0b11, 8000);
  EXPECT_DOUBLE_EQ(reduce.seconds, launch + 14 * (alpha + 1000 * beta));
  EXPECT_EQ(reduce.bytes, 14000);
  CollectiveCost exchange = topology.allToAll(0b10, 250);
  EXPECT_DOUBLE_EQ(exchange.seconds, launch + 3 * (alpha + 250 * beta));
  EXPECT_EQ(exchange.bytes, 750);
  EXPECT_EQ(topology.permute({0, 1, 2, 3, 4, 5, 6, 7}, 1000).bytes, 0);
  EXPECT_EQ(topology.permute({1, 0, 0, 0, 4, 5, 6, 7}, 1000).bytes, 3000);
  EXPECT_EQ(topology.allReduce(0, 8000).bytes, 0);
}

// Two servers of four devices; a server has two network links of 10 GB/s.
TEST(CollectiveCost, TheBottleneckDecides) {
  auto topology = llvm::cantFail(MeshTopology::create(makeCluster(), {2, 4}));
  EXPECT_EQ(topology.getOutermostLevel(0b10), 0);
  EXPECT_EQ(topology.getOutermostLevel(0b01), 1);
  EXPECT_EQ(topology.getOutermostLevel(0), -1);
  // Groups within a server share no link with the other server's groups.
  EXPECT_DOUBLE_EQ(topology.allGather(0b10, 1000).seconds,
                   3 * (1e-6 + 1000 / 1e11));
  // Four groups that span both servers share a server's links.
  EXPECT_DOUBLE_EQ(topology.allGather(0b01, 1000).seconds,
                   1e-5 + 4 * 1000 / 2e10);
  // A ring through all eight devices enters each server once: two of eight
  // messages have the latency of the network.
  double latency = (6 * 1e-6 + 2 * 1e-5) / 8;
  EXPECT_DOUBLE_EQ(topology.allGather(0b11, 1000).seconds,
                   7 * (latency + 1000 / 2e10));
  EXPECT_DOUBLE_EQ(topology.broadcast(0b11, 1000).seconds,
                   7 * latency + 1000 / 2e10);
  // Gathering between servers first and then within each is cheaper than the
  // ring, because it sends less over the network.
  EXPECT_LT(topology.allGather(0b01, 1000).seconds +
                topology.allGather(0b10, 2000).seconds,
            topology.allGather(0b11, 1000).seconds);
  // The mesh's last axis is the fastest: on a 4 x 2 mesh, groups of the last
  // axis lie within a server.
  auto other = llvm::cantFail(MeshTopology::create(makeCluster(), {4, 2}));
  EXPECT_EQ(other.getOutermostLevel(0b10), 0);
  EXPECT_EQ(other.getOutermostLevel(0b01), 1);
}

TEST(CollectiveCost, MeshesHaveToFit) {
  auto topology = MeshTopology::create(makeCluster(), {3, 4});
  ASSERT_FALSE(bool(topology));
  EXPECT_EQ(llvm::toString(topology.takeError()),
            "expected a mesh of at most the 8 devices of the cluster 'two', "
            "got one of 12");
}

} // namespace
