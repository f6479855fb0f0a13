//===- Roofline.cpp - Seconds by peak rate and memory bandwidth -----------===//

#include "heddle/Simulate/CostModel.h"

using namespace mlir;
using namespace heddle;

CostModel::~CostModel() = default;

RooflineCostModel::RooflineCostModel(ModuleOp module, const Cluster &cluster)
    : cluster(cluster), works(module) {}

FailureOr<double>
RooflineCostModel::getSeconds(rt::DeviceCallOpInterface call) {
  Work work = works.getWork(call);
  double seconds = double(work.bytesRead + work.bytesWritten) /
                   cluster.device.memoryBandwidth;
  if (work.flops > 0) {
    std::string type;
    llvm::raw_string_ostream(type) << CallWork::getComputeType(call);
    auto peak = cluster.device.peak.find(type);
    if (peak == cluster.device.peak.end())
      return call.emitError()
             << "computes in " << type << ", of which the cluster '"
             << cluster.name
             << "' states no peak rate: add it to device.peak of the cluster's "
                "file (`heddle info CLUSTER` prints a preset as one)";
    seconds = std::max(seconds, double(work.flops) / peak->second);
  }
  return cluster.device.launch + seconds;
}
