//===- CollectiveCosts.cpp - Costs of collective ops ----------------------===//

#include "heddle/Sharding/CollectiveCosts.h"
#include "dialects/Comm/Comm.h"

using namespace mlir;
using namespace heddle;

AxisMask heddle::getAxisMask(MeshAttr mesh, ArrayRef<StringAttr> axes) {
  AxisMask mask = 0;
  for (auto [i, axis] : llvm::enumerate(mesh.getAxes()))
    if (llvm::is_contained(axes, axis.getName()))
      mask |= AxisMask(1) << i;
  return mask;
}

AxisListAttr heddle::getCollectiveAxes(Operation *op) {
  if (!isa<comm::AllReduceOp, comm::AllGatherOp, comm::ReduceScatterOp,
           comm::AllToAllOp, comm::BroadcastOp, comm::PermuteOp>(op))
    return {};
  return op->getAttrOfType<AxisListAttr>("axes");
}

static CollectiveCost getCost(comm::PermuteOp permute, MeshAttr mesh,
                              const MeshTopology &topology) {
  llvm::SmallVector<unsigned> axes;
  for (StringAttr name : permute.getAxes().getAxes())
    for (auto [i, axis] : llvm::enumerate(mesh.getAxes()))
      if (axis.getName() == name)
        axes.push_back(unsigned(i));
  return topology.permuteMembers(axes, permute.getSources(),
                                 getBytes(permute.getInput().getType()));
}

CollectiveCost heddle::getCollectiveCost(Operation *op, MeshAttr mesh,
                                         const MeshTopology &topology) {
  AxisListAttr list = getCollectiveAxes(op);
  if (!list)
    return {};
  AxisMask axes = getAxisMask(mesh, list.getAxes());
  int64_t in = getBytes(op->getOperand(0).getType());
  int64_t out = getBytes(op->getResult(0).getType());
  return llvm::TypeSwitch<Operation *, CollectiveCost>(op)
      .Case([&](comm::AllReduceOp) { return topology.allReduce(axes, in); })
      .Case([&](comm::AllGatherOp) { return topology.allGather(axes, in); })
      .Case([&](comm::ReduceScatterOp) {
        return topology.reduceScatter(axes, out);
      })
      .Case([&](comm::AllToAllOp exchange) {
        // The block that one member sends to another has the result's size
        // along `split_dim` and the operand's along `concat_dim`.
        int64_t split = exchange.getSplitDim();
        int64_t rows = exchange.getInput().getType().getDimSize(split);
        return topology.allToAll(axes,
                                 in / std::max<int64_t>(1, rows) *
                                     exchange.getType().getDimSize(split));
      })
      .Case([&](comm::BroadcastOp) { return topology.broadcast(axes, in); })
      .Case([&](comm::PermuteOp permute) {
        return getCost(permute, mesh, topology);
      });
}
