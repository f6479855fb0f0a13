//===- StagePlaces.cpp - The devices of a pipeline's places ---------------===//

#include "StagePlaces.h"
#include <numeric>

using namespace heddle;

std::vector<PlaceDevice> heddle::getPlaces(const MeshTopology &topology) {
  const Cluster &cluster = topology.getCluster();
  std::vector<PlaceDevice> places(topology.getAxisSizes().front());
  if (cluster.groups.empty())
    return places;
  int64_t width = topology.getNumDevices() / int64_t(places.size());
  for (auto [place, device] : llvm::enumerate(places)) {
    std::vector<int64_t> numbers(width);
    std::iota(numbers.begin(), numbers.end(), int64_t(place) * width);
    const ClusterGroup &group = cluster.getGroup(numbers.front());
    ClusterDevice weakest = cluster.getDeviceOf(numbers);
    bool isOne = llvm::all_of(numbers, [&](int64_t number) {
      return &cluster.getGroup(number) == &group;
    });
    if (isOne)
      device.group = &group - cluster.groups.data();
    else
      device.mixed = weakest.kind;
    device.extraMemory = weakest.memory - cluster.device.memory;
  }
  return places;
}
