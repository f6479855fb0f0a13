//===- SimulatedExposure.cpp - Exposed time of collectives ----------------===//

#include "SimulatedExposure.h"
#include "heddle/Sharding/CollectiveCosts.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

using namespace mlir;
using namespace heddle;

/// Returns the kind of resharding step that the call executes. Returns nullopt
/// for other calls.
static std::optional<ReshardingStep::Kind>
getKind(rt::DeviceCallOpInterface call) {
  using Kind = ReshardingStep::Kind;
  using Result = std::optional<Kind>;
  return llvm::TypeSwitch<Operation *, Result>(call.getOperation())
      .Case([](rt::AllReduceOp) -> Result { return Kind::AllReduce; })
      .Case([](rt::AllGatherOp) -> Result { return Kind::AllGather; })
      .Case([](rt::ReduceScatterOp) -> Result { return Kind::ReduceScatter; })
      .Case([](rt::AllToAllOp) -> Result { return Kind::AllToAll; })
      .Case([](rt::PermuteOp) -> Result { return Kind::Permute; })
      .Default([](Operation *) -> Result { return std::nullopt; });
}

FailureOr<Exposure> heddle::getSimulatedExposure(ModuleOp module,
                                                 const Simulation &simulation,
                                                 const Cluster &cluster) {
  Exposure exposure;
  MeshRef mesh = getMesh(module);
  if (!mesh)
    return exposure; // one device
  std::vector<int64_t> sizes;
  for (MeshAxisAttr axis : mesh.mesh.getAxes())
    sizes.push_back(axis.getSize());
  llvm::Expected<MeshTopology> topology = MeshTopology::create(cluster, sizes);
  if (!topology)
    return module.emitError(llvm::toString(topology.takeError()));
  struct Seconds {
    double exposed = 0, all = 0;
  };
  std::map<std::pair<ReshardingStep::Kind, int>, Seconds> sums;
  for (const SimulatedCall &call : simulation.calls) {
    std::optional<ReshardingStep::Kind> kind = getKind(call.op);
    auto axes = call.op->getAttrOfType<AxisListAttr>("axes");
    if (!kind || !axes)
      continue;
    int level =
        topology->getOutermostLevel(getAxisMask(mesh.mesh, axes.getAxes()));
    Seconds &sum = sums[{*kind, level}];
    sum.exposed += double(call.repeat) * call.exposed;
    sum.all += double(call.repeat) * (call.exposed + call.hidden);
  }
  for (const auto &[key, sum] : sums)
    if (sum.all > 0)
      exposure.set(key.first, key.second, sum.exposed / sum.all);
  return exposure;
}
