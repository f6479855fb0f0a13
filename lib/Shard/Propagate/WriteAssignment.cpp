//===- WriteAssignment.cpp - An assignment as attributes ------------------===//

#include "WriteAssignment.h"
#include "heddle/Sharding/ControlFlow.h"

using namespace mlir;
using namespace heddle;

/// Writes an op's factors, and the shardings in which it makes its results.
static void writeNode(const Propagation &graph, unsigned node, MeshRef mesh) {
  Operation *op = graph.getOp(node);
  const ShardingRule &rule = graph.getRule(node);
  writeFactorAxes(op, rule, graph.getFactors(node));
  SmallVector<Attribute> shardings;
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    if (isa<RankedTensorType>(result.getType()))
      shardings.push_back(
          getResultSharding(rule, graph.getFactors(node), i, mesh));
  if (shardings.size() == 1)
    op->setAttr(kShardingAttrName, shardings[0]);
  else if (!shardings.empty())
    op->setAttr(kShardingAttrName, ArrayAttr::get(op->getContext(), shardings));
}

static void writeStorage(ModuleOp module,
                         const ShardingAssignment &assignment) {
  for (auto variable : module.getOps<VariableOp>()) {
    variable->removeAttr(kStorageAxesAttrName);
    variable.setStorageAttr(
        assignment.storage.lookup(variable.getSymNameAttr()));
  }
  for (auto function : module.getOps<func::FuncOp>())
    forEachOp(function, [&](Operation *op) {
      if (auto load = dyn_cast<LoadOp>(op))
        load->setAttr(kShardingAttrName, assignment.storage.lookup(
                                             load.getVariableAttr().getAttr()));
    });
}

void heddle::writeAssignment(ModuleOp module, MeshRef mesh,
                             const ShardingAssignment &assignment) {
  for (unsigned node = 0; node < assignment.graph.getNumNodes(); ++node)
    writeNode(assignment.graph, node, mesh);
  for (auto &[op, carried] : assignment.carried)
    op->setAttr(
        kCarriedAttrName,
        ArrayAttr::get(op->getContext(),
                       SmallVector<Attribute>(carried.begin(), carried.end())));
  writeStorage(module, assignment);
  for (auto [argument, sharding] : assignment.arguments)
    cast<func::FuncOp>(argument.getOwner()->getParentOp())
        .setArgAttr(argument.getArgNumber(), kShardingAttrName, sharding);
  for (auto [returned, sharding] : assignment.results)
    cast<func::FuncOp>(returned->getOwner()->getParentOp())
        .setResultAttr(returned->getOperandNumber(), kShardingAttrName,
                       sharding);
}
