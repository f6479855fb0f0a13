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

KnownCosts::OfMesh &KnownCosts::get(MeshRef mesh,
                                    const MeshTopology &topology) {
  const void *key = mesh.mesh.getAsOpaquePointer();
  auto known = ofMesh.find(key);
  if (known == ofMesh.end())
    known =
        ofMesh
            .emplace(key, OfMesh{ReshardSequences(
                                     mesh, std::make_shared<KnownReshardings>(
                                               copyOf(topology))),
                                 LocalParts()})
            .first;
  return known->second;
}

Costs::Costs(MeshRef mesh, const MeshTopology &topology,
             const Exposure &exposure, KnownCosts *known)
    : mesh(mesh), topology(topology), exposure(exposure),
      ofMesh((known ? *known : own).get(mesh, topology)) {}

//===----------------------------------------------------------------------===//
// Reshardings
//===----------------------------------------------------------------------===//

double Costs::getSeconds(RankedTensorType type, ShardingAttr from,
                         ShardingAttr to) {
  if (from == to)
    return 0;
  auto [entry, isNew] = exposedSeconds.try_emplace({type.getAsOpaquePointer(),
                                                    from.getAsOpaquePointer(),
                                                    to.getAsOpaquePointer()},
                                                   0.0);
  if (!isNew)
    return entry->second;
  for (const ReshardingStep &step :
       ofMesh.reshardings.find(type, from, to).steps) {
    AxisMask mask = 0;
    for (unsigned axis : step.axes)
      mask |= AxisMask(1) << axis;
    entry->second += step.cost.seconds *
                     exposure.get(step.kind, topology.getOutermostLevel(mask));
  }
  return entry->second;
}

int64_t Costs::getBytes(RankedTensorType type, ShardingAttr sharding) const {
  return heddle::getBytes(sharding.getLocalType(type, mesh.mesh));
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Returns all that an op without regions and its axes consist of, except its
/// name: equal layers have different ones.
static KnownCosts::OpKey getKey(Operation *op, const FactorAxes &axes) {
  KnownCosts::OpKey key = {op->getName().getAsOpaquePointer()};
  for (NamedAttribute attribute : op->getAttrs())
    if (attribute.getName() != kNameAttrName) {
      key.push_back(attribute.getName().getAsOpaquePointer());
      key.push_back(attribute.getValue().getAsOpaquePointer());
    }
  key.push_back(nullptr);
  for (Type type : op->getOperandTypes())
    key.push_back(type.getAsOpaquePointer());
  key.push_back(nullptr);
  for (Type type : op->getResultTypes())
    key.push_back(type.getAsOpaquePointer());
  for (const Axes &ofFactor : axes) {
    key.push_back(nullptr);
    for (StringAttr axis : ofFactor)
      key.push_back(axis.getAsOpaquePointer());
  }
  return key;
}

/// Returns the parts of an op whose local form consists of several ops. None if
/// it cannot be localized with these axes.
std::optional<std::vector<LocalPart>>
Costs::findLocalParts(const OpClass &made, const FactorAxes &axes,
                      double peak) {
  const ClusterDevice &device = topology.getCluster().device;
  std::vector<LocalPart> parts;
  LogicalResult status = forEachLocalOp(made, axes, mesh, [&](Operation *op) {
    if (AxisListAttr list = getCollectiveAxes(op)) {
      AxisMask mask = getAxisMask(mesh.mesh, list.getAxes());
      parts.push_back(
          {getCollectiveCost(op, mesh.mesh, topology).seconds,
           std::pair(getCollectiveKind(op), topology.getOutermostLevel(mask))});
    } else if (auto model = dyn_cast<WorkOpInterface>(op)) {
      Work work = model.getWork();
      if (work.flops != 0 || work.bytesRead + work.bytesWritten != 0)
        parts.push_back({getRooflineSeconds(work, peak, device), std::nullopt});
    }
  });
  if (failed(status))
    return std::nullopt;
  return parts;
}

/// Returns the seconds of an op whose local form consists of several ops. None
/// if it cannot be localized with these axes.
std::optional<double> Costs::getExchangeSeconds(const OpClass &made,
                                                const FactorAxes &axes,
                                                double peak) {
  std::optional<std::vector<LocalPart>> found, *parts = &found;
  if (made.op()->getNumRegions() == 0) {
    auto [known, isNew] = ofMesh.parts.try_emplace(getKey(made.op(), axes));
    if (isNew)
      known->second = findLocalParts(made, axes, peak);
    parts = &known->second;
  } else {
    found = findLocalParts(made, axes, peak);
  }
  if (!*parts)
    return std::nullopt;
  double seconds = 0;
  for (const LocalPart &part : **parts)
    seconds +=
        part.seconds * (part.collective ? exposure.get(part.collective->first,
                                                       part.collective->second)
                                        : 1);
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
    if (std::optional<double> found = getExchangeSeconds(made, axes, *peak))
      return *found;
  Work work = getLocalWork(made, axes, mesh);
  if (work.flops == 0 && work.bytesRead + work.bytesWritten == 0)
    return 0.0;
  ClusterDevice device = topology.getCluster().device;
  if (!made.launches)
    device.launch = 0;
  return getRooflineSeconds(work, *peak, device);
}
