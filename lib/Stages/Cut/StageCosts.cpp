//===- StageCosts.cpp - Times of a sharded program's ops ------------------===//

#include "StageCosts.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/Sharding/CollectiveCosts.h"

using namespace mlir;
using namespace heddle;

StageCosts::StageCosts(MeshRef mesh, StringAttr axis,
                       ReshardSequences sequences)
    : mesh(mesh), sequences(std::move(sequences)) {
  const MeshTopology &topology = this->sequences.getTopology();
  this->axis = topology.listAxes(getAxisMask(mesh.mesh, {axis})).front();
  int64_t stride = 1;
  for (int64_t size : topology.getAxisSizes().drop_front(this->axis + 1))
    stride *= size;
  for (int64_t device = 0; device < topology.getNumDevices(); ++device)
    sources.push_back(
        topology.getCoordinate(device, this->axis) > 0 ? device - stride : -1);
}

double StageCosts::getSeconds(Operation *op) {
  if (auto reshard = dyn_cast<ReshardOp>(op))
    return getReshardSeconds(cast<RankedTensorType>(reshard.getX().getType()),
                             reshard.getFrom(), reshard.getTo());
  auto working = dyn_cast<WorkOpInterface>(op);
  if (!working || op->getNumResults() == 0)
    return 0;
  Work work = working.getWork();
  // All devices of the mesh but those of other stages share the work along the
  // axes of its factors.
  ShardingRule rule = getRule(op);
  if (FailureOr<FactorAxes> axes = readFactorAxes(op, rule, mesh.mesh);
      succeeded(axes)) {
    int64_t parts = 1;
    for (const Axes &list : *axes)
      parts *= mesh.getSize(list);
    work.flops /= parts;
    work.bytesRead /= parts;
    work.bytesWritten /= parts;
  }
  const ClusterDevice &device = sequences.getTopology().getCluster().device;
  Type type = op->getNumOperands() ? op->getOperand(0).getType()
                                   : op->getResult(0).getType();
  return getRooflineSeconds(
      work, getNearProductRate(getElementTypeOrSelf(type), device), device);
}

std::vector<double> StageCosts::getFactors(Type elementType) const {
  const MeshTopology &topology = sequences.getTopology();
  const Cluster &cluster = topology.getCluster();
  std::vector<double> factors(topology.getAxisSizes()[axis], 1);
  if (cluster.groups.empty())
    return factors;
  for (auto [place, factor] : llvm::enumerate(factors)) {
    std::vector<int64_t> devices;
    for (int64_t device = 0; device < topology.getNumDevices(); ++device)
      if (topology.getCoordinate(device, axis) == int64_t(place))
        devices.push_back(device);
    factor = getNearProductRate(elementType, cluster.device) /
             getNearProductRate(elementType, cluster.getDeviceOf(devices));
  }
  return factors;
}

double StageCosts::getTransferSeconds(int64_t bytes) const {
  return bytes == 0 ? 0
                    : sequences.getTopology().permute(sources, bytes).seconds;
}
