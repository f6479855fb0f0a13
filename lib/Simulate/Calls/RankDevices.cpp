//===- RankDevices.cpp - The kinds of device that ranks have --------------===//

#include "heddle/Simulate/RankDevices.h"
#include "dialects/Rt/Rt.h"

using namespace mlir;
using namespace heddle;

std::vector<int64_t> heddle::getDevicesOfRanks(MeshAttr mesh, RanksAttr ranks) {
  int64_t count = 1;
  for (MeshAxisAttr axis : mesh.getAxes())
    count *= axis.getSize();
  std::vector<int64_t> devices;
  for (int64_t device = 0; device < count; ++device) {
    bool contains = true;
    int64_t rest = device;
    for (MeshAxisAttr axis : llvm::reverse(mesh.getAxes())) {
      int64_t coordinate = rest % axis.getSize();
      rest /= axis.getSize();
      if (ranks)
        for (CoordinatesAttr where : ranks.getWhere())
          if (where.getAxis() == axis.getName())
            contains &= llvm::is_contained(where.getValues(), coordinate);
    }
    if (contains)
      devices.push_back(device);
  }
  return devices;
}

RankDevices::RankDevices(ModuleOp module, const Cluster &cluster)
    : cluster(cluster) {
  for (auto op : module.getOps<MeshOp>())
    mesh = op.getMesh();
}

const ClusterDevice &RankDevices::get(RanksAttr ranks) const {
  if (cluster.groups.empty())
    return cluster.device;
  auto found = known.find(ranks);
  if (found == known.end()) {
    std::vector<int64_t> devices = {0};
    if (mesh)
      devices = getDevicesOfRanks(mesh, ranks);
    llvm::erase_if(devices, [&](int64_t device) {
      return device >= cluster.getNumDevices();
    });
    found = known.try_emplace(ranks, cluster.getDeviceOf(devices)).first;
  }
  return found->second;
}

const ClusterDevice &RankDevices::getOf(Operation *op) const {
  auto program = op->getParentOfType<rt::ProgramOp>();
  return get(program ? program->getAttrOfType<RanksAttr>(kRanksAttrName)
                     : RanksAttr());
}

bool RankDevices::isMixed(RanksAttr ranks) const {
  if (cluster.groups.empty() || !mesh)
    return false;
  std::vector<int64_t> devices = getDevicesOfRanks(mesh, ranks);
  return llvm::any_of(devices, [&](int64_t device) {
    return &cluster.getGroup(device) != &cluster.getGroup(devices.front());
  });
}
