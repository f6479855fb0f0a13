//===- Costs.cpp - Seconds of ops and reshardings on a mesh ---------------===//

#include "Costs.h"
#include "LocalWork.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/Sharding/CollectiveCosts.h"
#include "heddle/Support/Bytes.h"

using namespace mlir;
using namespace heddle;

/// Copies a topology: the search for reshardings owns one.
static MeshTopology copyOf(const MeshTopology &topology) { return topology; }

Costs::Costs(MeshRef mesh, const MeshTopology &topology,
             const Exposure &exposure)
    : mesh(mesh), topology(topology), exposure(exposure),
      sequences(mesh, copyOf(topology)) {}

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

/// Returns the seconds of the collectives inside of an op: sums over a factor
/// that the op combines itself, and the ring of two factors that meet.
double Costs::getExchangeSeconds(const OpClass &made, const FactorAxes &axes) {
  const ShardingRule &rule = made.rule;
  Operation *op = made.op();
  double seconds = 0;
  auto add = [&](ReshardingStep::Kind kind, AxisMask mask,
                 CollectiveCost cost) {
    seconds +=
        cost.seconds * exposure.get(kind, topology.getOutermostLevel(mask));
  };
  auto localBytes = [&](Value value, ShardingAttr sharding) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type ? getBytes(type, sharding) : 0;
  };
  bool meets = rule.meet && !axes[rule.meet->first].empty() &&
               axes[rule.meet->first] == axes[rule.meet->second];
  for (auto [f, factor] : llvm::enumerate(rule.factors)) {
    if (axes[f].empty())
      continue;
    AxisMask mask = getAxisMask(mesh.mesh, axes[f]);
    if (meets && f == rule.meet->second) {
      // Keys and values go once around the ring, and their gradients, too.
      int64_t in = 0, out = 0;
      for (auto [i, dims] : llvm::enumerate(rule.operands))
        if (ShardingRule::runsOver(dims, f))
          in += localBytes(op->getOperand(i),
                           getOperandSharding(rule, axes, i, mesh));
      for (auto [i, dims] : llvm::enumerate(rule.results))
        if (ShardingRule::runsOver(dims, f))
          out += localBytes(op->getResult(i),
                            getResultSharding(rule, axes, i, mesh));
      add(ReshardingStep::Permute, mask, topology.allGather(mask, in));
      if (out)
        add(ReshardingStep::Permute, mask, topology.allGather(mask, out));
    } else if (factor.kind == FactorKind::Combine) {
      int64_t bytes = 0;
      for (auto [i, dims] : llvm::enumerate(rule.results))
        if (!ShardingRule::runsOver(dims, f))
          bytes += localBytes(op->getResult(i),
                              getResultSharding(rule, axes, i, mesh));
      add(ReshardingStep::AllReduce, mask, topology.allReduce(mask, bytes));
    }
  }
  return seconds;
}

FailureOr<double> Costs::getSeconds(const OpClass &made,
                                    const FactorAxes &axes) {
  auto model = dyn_cast<WorkOpInterface>(made.op());
  if (!model)
    return 0.0;
  FailureOr<double> peak = getPeakOf(made.op(), topology.getCluster());
  if (failed(peak))
    return failure();
  Work work = getLocalWork(made, axes, mesh);
  if (made.rule.meet && !axes[made.rule.meet->first].empty() &&
      axes[made.rule.meet->first] == axes[made.rule.meet->second])
    work.flops *= mesh.getSize(axes[made.rule.meet->first]); // steps of a ring
  double seconds = getExchangeSeconds(made, axes);
  if (work.flops == 0 && work.bytesRead + work.bytesWritten == 0)
    return seconds;
  ClusterDevice device = topology.getCluster().device;
  if (!made.launches)
    device.launch = 0;
  return seconds + getRooflineSeconds(work, *peak, device);
}
