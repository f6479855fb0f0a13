//===- GradientSums.cpp - When gradients are summed over devices ----------===//
//
// Where a step has several micro-batches, each adds to variables of role
// gradient. What it adds is a partial sum over the axes that split the batch. A
// sum of partial sums is one, too: so the variable is stored as such, each
// device adds to its own, and what reads the variable (the update) sums over
// the devices, once a step. Where the plan stores the gradients in parts
// (ZeRO-2), each micro-batch scatters its own instead.
//
//===----------------------------------------------------------------------===//

#include "ModulePropagation.h"
#include "heddle/Sharding/PartialSums.h"
#include "heddle/Support/Zeros.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

namespace {
/// store (load + added), both of one variable.
struct Accumulation {
  LoadOp load;
  Value added;
  StoreOp store;

  Value getSum() { return store.getValue(); }
};
} // namespace

static std::optional<Accumulation> findAccumulation(StoreOp store) {
  auto sum = store.getValue().getDefiningOp<arith::AddFOp>();
  if (!sum || sum->getBlock() != store->getBlock())
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    auto load = sum->getOperand(i).getDefiningOp<LoadOp>();
    Value added = sum->getOperand(1 - i);
    if (load && load->getBlock() == store->getBlock() &&
        load.getVariableAttr() == store.getVariableAttr() &&
        added != load.getResult())
      return Accumulation{load, added, store};
  }
  return std::nullopt;
}

void ModulePropagation::deferGradientSums() {
  auto reduce =
      module->getAttrOfType<GradientReductionAttr>(kReduceGradientsAttrName);
  if (reduce && reduce.getValue() == GradientReduction::MicroBatch)
    return;
  // Variables that are added to in one place and only set to zero elsewhere,
  // also at the start: what each device had would count once for each.
  llvm::MapVector<StringAttr, Accumulation> accumulations;
  DenseSet<StringAttr> others;
  for (auto [op, cell] : accesses) {
    auto store = dyn_cast<StoreOp>(op);
    if (!store || isZeros(store.getValue()))
      continue;
    StringAttr name = variableOf(op);
    std::optional<Accumulation> found = findAccumulation(store);
    if (!found || !accumulations.insert({name, *found}).second)
      others.insert(name);
  }
  llvm::MapVector<Block *, SmallVector<StringAttr>> byBlock;
  for (auto &[name, accumulation] : accumulations) {
    VariableOp variable = variables.find(name)->second.first;
    if (variable.isSumOfStep() && !variable.getStorageAttr() &&
        !others.contains(name) &&
        variable.getInit().getKind() == InitKind::Zeros)
      byBlock[accumulation.store->getBlock()].push_back(name);
  }

  auto factorsOf = [&](Operation *op, const ShardingRule &rule) {
    std::optional<unsigned> node = graph.findNode(op);
    return node ? graph.getFactors(*node) : FactorAxes(rule.factors.size());
  };
  auto stored = [&](Operation *access) {
    return partialStorage.lookup(variableOf(access));
  };
  for (auto &[block, names] : byBlock) {
    PartialSums before(*block, mesh, factorsOf);
    SmallVector<StringAttr> deferred;
    for (StringAttr name : names) {
      Axes axes(before.getPartialAxes(accumulations.find(name)->second.added));
      bool isStoredOver = llvm::any_of(storage[name], [&](const Axes &dim) {
        return llvm::any_of(dim, [&](StringAttr axis) {
          return llvm::is_contained(axes, axis);
        });
      });
      if (axes.empty() || isStoredOver)
        continue;
      partialStorage[name] = axes;
      deferred.push_back(name);
    }
    // Only where the sums really go on; each that does not may stop others.
    for (bool changed = true; changed;) {
      PartialSums after(*block, mesh, factorsOf, nullptr, stored);
      size_t count = deferred.size();
      llvm::erase_if(deferred, [&](StringAttr name) {
        Accumulation &accumulation = accumulations.find(name)->second;
        bool goesOn = after.isKept(accumulation.load.getResult()) &&
                      after.isKept(accumulation.added) &&
                      after.isKept(accumulation.getSum());
        if (!goesOn)
          partialStorage.erase(name);
        return !goesOn;
      });
      changed = deferred.size() != count;
    }
  }
}
