//===- Roofline.cpp - Seconds by peak rate and memory bandwidth -----------===//

#include "heddle/Cost/Roofline.h"
#include "heddle/Simulate/CostModel.h"

using namespace mlir;
using namespace heddle;

CostModel::~CostModel() = default;

RooflineCostModel::RooflineCostModel(ModuleOp module, const Cluster &cluster)
    : cluster(cluster), devices(module, cluster), works(module) {}

FailureOr<double>
RooflineCostModel::getSeconds(rt::DeviceCallOpInterface call) {
  Work work = works.getWork(call);
  Type type = CallWork::getComputeType(call);
  const ClusterDevice &device = devices.getOf(call);
  std::optional<double> peakRate = getProductRate(type, device);
  if (!peakRate && work.flops > 0)
    return call.emitError()
           << "computes in " << type << ", of which the cluster '"
           << cluster.name
           << "' states no peak rate: add it to device.peak of the cluster's "
              "file (`heddle info CLUSTER` prints a preset as one)";
  return getRooflineSeconds(work, peakRate.value_or(1), device);
}
