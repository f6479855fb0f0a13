//===- Costs.cpp - Seconds of ops and reshardings on a mesh ---------------===//

#include "Costs.h"
#include "LocalOp.h"
#include "LocalWork.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/Sharding/CollectiveCosts.h"
#include "heddle/Support/Bytes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

ReshardingStep::Kind heddle::getCollectiveKind(Operation *collective) {
  using Kind = ReshardingStep::Kind;
  return llvm::TypeSwitch<Operation *, Kind>(collective)
      .Case([](comm::AllReduceOp) { return Kind::AllReduce; })
      .Case([](comm::AllGatherOp) { return Kind::AllGather; })
      .Case([](comm::ReduceScatterOp) { return Kind::ReduceScatter; })
      .Case([](comm::AllToAllOp) { return Kind::AllToAll; })
      .Default([](Operation *) { return Kind::Permute; });
}

/// Copies a topology: the search for reshardings owns one.
static MeshTopology copyOf(const MeshTopology &topology) { return topology; }

ReshardSequences &KnownReshardings::get(MeshRef mesh,
                                        const MeshTopology &topology) {
  const void *key = mesh.mesh.getAsOpaquePointer();
  auto known = ofMesh.find(key);
  if (known == ofMesh.end())
    known = ofMesh.emplace(key, ReshardSequences(mesh, copyOf(topology))).first;
  return known->second;
}

Costs::Costs(MeshRef mesh, const MeshTopology &topology,
             const Exposure &exposure, KnownReshardings *reshardings)
    : mesh(mesh), topology(topology), exposure(exposure),
      sequences((reshardings ? *reshardings : own).get(mesh, topology)) {}

//===----------------------------------------------------------------------===//
// Reshardings
//===----------------------------------------------------------------------===//

double Costs::getSeconds(RankedTensorType type, ShardingAttr from,
                         ShardingAttr to) {
  if (from == to)
    return 0;
  auto [entry, isNew] =
      known.try_emplace({type.getAsOpaquePointer(), from.getAsOpaquePointer(),
                         to.getAsOpaquePointer()},
                        0.0);
  if (!isNew)
    return entry->second;
  double seconds = 0;
  for (const ReshardStep &step : sequences.plan(type, from, to)) {
    int level = topology.getOutermostLevel(getAxisMask(mesh.mesh, step.axes));
    seconds += step.cost.seconds * exposure.get(step.kind, level);
  }
  return known[{type.getAsOpaquePointer(), from.getAsOpaquePointer(),
                to.getAsOpaquePointer()}] = seconds;
}

int64_t Costs::getBytes(RankedTensorType type, ShardingAttr sharding) const {
  return heddle::getBytes(sharding.getLocalType(type, mesh.mesh));
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Returns the seconds of an op whose local form consists of several ops.
FailureOr<double> Costs::getExchangeSeconds(const OpClass &made,
                                            const FactorAxes &axes,
                                            double peak) {
  const ClusterDevice &device = topology.getCluster().device;
  double seconds = 0;
  LogicalResult status = forEachLocalOp(made, axes, mesh, [&](Operation *op) {
    if (AxisListAttr list = getCollectiveAxes(op)) {
      AxisMask mask = getAxisMask(mesh.mesh, list.getAxes());
      seconds +=
          getCollectiveCost(op, mesh.mesh, topology).seconds *
          exposure.get(getCollectiveKind(op), topology.getOutermostLevel(mask));
    } else if (auto model = dyn_cast<WorkOpInterface>(op)) {
      Work work = model.getWork();
      if (work.flops != 0 || work.bytesRead + work.bytesWritten != 0)
        seconds += getRooflineSeconds(work, peak, device);
    }
  });
  if (failed(status))
    return failure();
  return seconds;
}

FailureOr<double> Costs::getSeconds(const OpClass &made,
                                    const FactorAxes &axes) {
  if (!isa<WorkOpInterface>(made.op()))
    return 0.0;
  FailureOr<double> peak = getPeakOf(made.op(), topology.getCluster());
  if (failed(peak))
    return failure();
  if (hasExchange(made, axes))
    if (FailureOr<double> seconds = getExchangeSeconds(made, axes, *peak);
        succeeded(seconds))
      return *seconds;
  Work work = getLocalWork(made, axes, mesh);
  if (work.flops == 0 && work.bytesRead + work.bytesWritten == 0)
    return 0.0;
  ClusterDevice device = topology.getCluster().device;
  if (!made.launches)
    device.launch = 0;
  return getRooflineSeconds(work, *peak, device);
}
