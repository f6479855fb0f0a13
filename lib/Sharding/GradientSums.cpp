//===- GradientSums.cpp - Defers sums of gradients over devices -----------===//

#include "GradientSums.h"
#include "heddle/Sharding/PartialSums.h"
#include "heddle/Support/Zeros.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

namespace {
/// An addition to a variable: store (load + added).
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

using Accumulations = llvm::MapVector<StringAttr, Accumulation>;

/// Returns the variables of role gradient or loss that one place adds to and
/// that are set only to zero elsewhere, also at the start. Any other initial
/// number would count once for each device.
static Accumulations findAccumulations(const ModuleGraph &program,
                                       const VariableStorages &storage) {
  Accumulations accumulations;
  DenseSet<StringAttr> others;
  for (const ModuleGraph::Access &access : program.accesses) {
    auto store = dyn_cast<StoreOp>(access.op);
    if (!store || isZeros(store.getValue()))
      continue;
    StringAttr name = getVariableOf(store);
    std::optional<Accumulation> found = findAccumulation(store);
    if (!found || !accumulations.insert({name, *found}).second)
      others.insert(name);
  }
  accumulations.remove_if([&](const auto &entry) {
    VariableOp variable = program.variables.find(entry.first)->second.op;
    return !variable.isSumOfStep() ||
           variable.getInit().getKind() != InitKind::Zeros ||
           storage.find(entry.first)->second.isGiven ||
           others.contains(entry.first);
  });
  return accumulations;
}

void heddle::deferGradientSums(const ModuleGraph &program, MeshRef mesh,
                               VariableStorages &storage) {
  Accumulations accumulations = findAccumulations(program, storage);
  llvm::MapVector<Block *, SmallVector<StringAttr>> byBlock;
  for (auto &[name, accumulation] : accumulations)
    byBlock[accumulation.store->getBlock()].push_back(name);

  auto factorsOf = [&](Operation *op, const ShardingRule &rule) {
    std::optional<unsigned> node = program.graph.findNode(op);
    return node ? program.graph.getFactors(*node)
                : FactorAxes(rule.factors.size());
  };
  auto stored = [&](Operation *access) {
    return storage.find(getVariableOf(access))->second.partial;
  };
  for (auto &[block, names] : byBlock) {
    PartialSums before(*block, mesh, factorsOf);
    SmallVector<StringAttr> deferred;
    for (StringAttr name : names) {
      Axes axes(before.getPartialAxes(accumulations.find(name)->second.added));
      VariableStorage &own = storage.find(name)->second;
      bool isStoredOver = llvm::any_of(own.dims, [&](const Axes &dim) {
        return llvm::any_of(dim, [&](StringAttr axis) {
          return llvm::is_contained(axes, axis);
        });
      });
      if (axes.empty() || isStoredOver)
        continue;
      own.partial = axes;
      deferred.push_back(name);
    }
    // Takes back the variables whose partial sums are reduced before the store.
    // Each variable that is taken back may cause others to be.
    for (bool changed = true; changed;) {
      PartialSums after(*block, mesh, factorsOf, nullptr, stored);
      size_t count = deferred.size();
      llvm::erase_if(deferred, [&](StringAttr name) {
        Accumulation &accumulation = accumulations.find(name)->second;
        bool goesOn = after.isKept(accumulation.load.getResult()) &&
                      after.isKept(accumulation.added) &&
                      after.isKept(accumulation.getSum());
        if (!goesOn)
          storage.find(name)->second.partial.clear();
        return !goesOn;
      });
      changed = deferred.size() != count;
    }
  }
}
