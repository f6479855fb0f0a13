//===- RankDevices.cpp - The kinds of device that ranks have --------------===//

#include "heddle/Simulate/RankDevices.h"
#include "dialects/Rt/Rt.h"

using namespace mlir;
using namespace heddle;

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
