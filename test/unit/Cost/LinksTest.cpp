//===- LinksTest.cpp - Emulated times are those of the cost model ---------===//
//
// The compiler computes the time of a collective (CollectiveCost.h), and the
// runtime emulates it (runtime/communicators/Links.h). Both must agree if all
// groups call the collective at the same time.
//
//===----------------------------------------------------------------------===//

#include "communicators/Network.h"
#include "heddle/Cost/Cluster.h"
#include "heddle/Cost/CollectiveCost.h"

#include "gtest/gtest.h"

#include <functional>
#include <map>

using namespace heddle;

namespace {

using Ranks = std::span<const int32_t>;

/// A cluster and a mesh on it.
struct Case {
  const char *cluster;
  std::vector<int64_t> mesh;
};

class LinksTest : public testing::TestWithParam<Case> {
protected:
  LinksTest()
      : cluster(llvm::cantFail(loadCluster(GetParam().cluster))),
        topology(
            llvm::cantFail(MeshTopology::create(cluster, GetParam().mesh))),
        links(*runtime::parseNetwork(writeCluster(cluster), "cluster"),
              topology.getNumDevices()) {}

  /// All groups over `axes` begin their traffic at time 0. Returns the time at
  /// which the last one ends, and adds the device's launch time.
  double emulate(AxisMask axes,
                 const std::function<runtime::Traffic(Ranks)> &traffic) {
    std::map<int64_t, std::vector<int32_t>> groups;
    for (int64_t device = 0; device < topology.getNumDevices(); ++device)
      groups[topology.getFirstOfGroup(device, axes)].push_back(int32_t(device));
    runtime::LinkSchedule schedule(links);
    std::vector<std::shared_ptr<runtime::Flow>> flows;
    for (auto &[first, ranks] : groups) {
      flows.push_back(std::make_shared<runtime::Flow>());
      flows.back()->traffic = traffic(ranks);
      schedule.begin(flows.back(), 0);
    }
    double end = 0;
    for (const auto &flow : flows)
      end = std::max(end, flow->end);
    return end + cluster.device.launch;
  }

  Cluster cluster;
  MeshTopology topology;
  runtime::Links links;
};

TEST_P(LinksTest, CollectivesOfAllGroupsTakeTheModelsTime) {
  for (AxisMask axes = 1; axes < 1u << GetParam().mesh.size(); ++axes)
    for (int64_t bytes : {0, 12345, 100'000'000}) {
      SCOPED_TRACE(testing::Message() << "axes " << axes << ", " << bytes);
      auto expectNear = [](double emulated, CollectiveCost cost) {
        EXPECT_NEAR(emulated, cost.seconds, 1e-9 * cost.seconds);
      };
      expectNear(
          emulate(axes, [&](Ranks r) { return links.allReduce(r, bytes); }),
          topology.allReduce(axes, bytes));
      expectNear(
          emulate(axes, [&](Ranks r) { return links.allGather(r, bytes); }),
          topology.allGather(axes, bytes));
      expectNear(
          emulate(axes, [&](Ranks r) { return links.allToAll(r, bytes); }),
          topology.allToAll(axes, bytes));
      expectNear(
          emulate(axes, [&](Ranks r) { return links.broadcast(r, bytes); }),
          topology.broadcast(axes, bytes));
    }
}

TEST_P(LinksTest, APermuteOfAllDevicesTakesTheModelsTime) {
  int64_t devices = topology.getNumDevices();
  AxisMask all = (1u << GetParam().mesh.size()) - 1;
  for (int64_t shift : {int64_t(1), devices / 2}) {
    std::vector<int64_t> sources;
    for (int64_t device = 0; device < devices; ++device)
      sources.push_back((device + shift) % devices);
    std::vector<int32_t> members(sources.begin(), sources.end());
    double cost = topology.permute(sources, 12345).seconds;
    EXPECT_NEAR(emulate(all,
                        [&](Ranks ranks) {
                          return links.permute(ranks, members.data(), 12345);
                        }),
                cost, 1e-9 * cost);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, LinksTest,
    testing::Values(Case{"laptop-cpu", {8}}, Case{"laptop-cpu", {2, 2}},
                    Case{"dgx-a100:2", {2, 8}}, Case{"dgx-a100:4", {4, 2, 4}},
                    Case{"dgx-h100:2", {16}}, Case{"rtx3090", {8, 4}},
                    Case{"rtx3090-nvlink:4", {2, 2, 4}}));

} // namespace
