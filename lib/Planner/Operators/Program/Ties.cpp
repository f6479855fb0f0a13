//===- Ties.cpp - Ops and variables that are planned as one ---------------===//

#include "Ties.h"
#include "Layers.h"
#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"
#include <map>

using namespace mlir;
using namespace heddle;

StringAttr heddle::getAccessedVariable(Operation *access) {
  if (auto load = dyn_cast<LoadOp>(access))
    return load.getVariableAttr().getAttr();
  return cast<StoreOp>(access).getVariableAttr().getAttr();
}

bool heddle::isAligned(const ShardingRule &rule) {
  auto check = [&](const TensorFactors &dims) {
    if (dims.empty())
      return true;
    if (dims.size() != rule.factors.size())
      return false;
    for (auto [i, dim] : llvm::enumerate(dims))
      if (dim.size() > 1 || (dim.size() == 1 && dim[0] != i))
        return false;
    return true;
  };
  return !rule.factors.empty() && llvm::all_of(rule.operands, check) &&
         llvm::all_of(rule.results, check);
}

namespace {

class TieFinder {
public:
  TieFinder(ModuleOp module, ArrayRef<Operation *> ops, const Plan *plan)
      : ops(ops), plan(plan) {
    for (auto [i, op] : llvm::enumerate(ops)) {
      indexOf[op] = i;
      ties.ops.insert(i);
    }
    for (VariableOp variable : module.getOps<VariableOp>()) {
      ties.variables.insert(variables.size());
      numberOf[variable.getSymNameAttr()] = variables.size();
      variables.push_back(variable);
    }
  }

  void findModel();
  void findUpdates();
  void uniteModel();
  void uniteVariables();
  void uniteUpdates();
  void markModel() {
    for (Operation *op : ops)
      ties.isOfModel.push_back(ofModel.contains(op));
  }

  Ties ties;

private:
  void uniteAccesses(Operation *a, Operation *b);
  uint64_t getPlannedAs(Operation *op);
  void findStorage();

  ArrayRef<Operation *> ops;
  const Plan *plan;                    ///< or null
  llvm::StringMap<uint64_t> plannedAs; ///< by the operator's name
  /// By parameter: a hash of how the plan stores it and its states.
  DenseMap<StringAttr, uint64_t> storedAs;
  DenseMap<Operation *, unsigned> indexOf;
  SmallVector<VariableOp> variables;
  DenseMap<StringAttr, unsigned> numberOf;
  DenseSet<Operation *> ofModel;
};

} // namespace

/// Returns a hash of the axes that the plan states for the operator.
uint64_t TieFinder::getPlannedAs(Operation *op) {
  StringRef name = getOpName(op);
  if (!plan || name.empty())
    return 0;
  auto [known, isNew] = plannedAs.try_emplace(name, 0);
  if (!isNew)
    return known->second;
  llvm::hash_code hash(0);
  for (const Factor &factor : getRule(op).factors)
    if (const FactorEntry *entry =
            findPlanEntry(plan->operators, name, factor.name)) {
      const std::vector<std::string> &axes = entry->find(factor.name)->axes;
      hash = llvm::hash_combine(
          hash, factor.name,
          llvm::hash_combine_range(axes.begin(), axes.end()));
    }
  return known->second = hash;
}

void TieFinder::findStorage() {
  if (!plan)
    return;
  for (VariableOp variable : variables) {
    const StorageEntry *entry =
        findPlanEntry(plan->storage, variable.getSymName());
    if (!entry)
      continue;
    StringAttr parameter = variable.getSymNameAttr();
    std::optional<StateAttr> state = variable.getState();
    int kind = state ? int(state->getKind()) : -1;
    if (state)
      parameter = state->getParameter().getAttr();
    uint64_t &hash = storedAs[parameter];
    for (const DimAssignment &dim : entry->assignments)
      hash = llvm::hash_combine(
          hash, kind, dim.key,
          llvm::hash_combine_range(dim.axes.begin(), dim.axes.end()));
  }
}

/// Finds the ops of the forward and backward pass: the ops that are marked so,
/// and all that they depend on. In a program without such ops, all ops count.
void TieFinder::findModel() {
  SmallVector<Value> needed;
  for (Operation *op : ops)
    if (op->hasTrait<NetworkOp>() && ofModel.insert(op).second)
      llvm::append_range(needed, op->getOperands());
  if (ofModel.empty())
    ofModel.insert(ops.begin(), ops.end());
  while (!needed.empty()) {
    Operation *op = needed.pop_back_val().getDefiningOp();
    if (op && indexOf.contains(op) && ofModel.insert(op).second)
      llvm::append_range(needed, op->getOperands());
  }
}

void TieFinder::findUpdates() {
  for (auto [i, op] : llvm::enumerate(ops))
    if (!ofModel.contains(op) && isAligned(getRule(op)))
      ties.updates.insert(i);
  auto isUpdate = [&](Operation *op) {
    auto found = indexOf.find(op);
    return found != indexOf.end() &&
           ties.updates.findValue(found->second) != ties.updates.end();
  };
  for (auto [i, op] : llvm::enumerate(ops)) {
    if (!isUpdate(op))
      continue;
    auto unite = [&, i = unsigned(i)](Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type || type.getRank() == 0)
        return;
      // A value made of scalars ties nothing, because every use may have its
      // own copy.
      if (Operation *source = value.getDefiningOp();
          source && !isa<LoadOp>(source) && !indexOf.contains(source))
        return;
      for (Operation *user : value.getUsers())
        if (isUpdate(user))
          ties.updates.unionSets(i, indexOf[user]);
    };
    for (Value value : op->getOperands())
      unite(value);
    for (Value value : op->getResults())
      unite(value);
  }
}

void TieFinder::uniteModel() {
  SmallVector<Operation *> model;
  for (Operation *op : ops)
    if (ofModel.contains(op))
      model.push_back(op);
  SmallVector<uint64_t> planned;
  for (Operation *op : model)
    planned.push_back(getPlannedAs(op));
  llvm::EquivalenceClasses<unsigned> layers;
  uniteLayers(model, planned, layers);
  for (auto i = layers.begin(); i != layers.end(); ++i) {
    if (!i->isLeader())
      continue;
    for (auto member = layers.member_begin(i); member != layers.member_end();
         ++member)
      ties.ops.unionSets(indexOf[model[*layers.member_begin(i)]],
                         indexOf[model[*member]]);
  }
}

/// Unites the variables that two ops access in the same way.
void TieFinder::uniteAccesses(Operation *a, Operation *b) {
  if (!a || !b || a->getName() != b->getName() || !isa<LoadOp, StoreOp>(a))
    return;
  auto x = numberOf.find(getAccessedVariable(a)),
       y = numberOf.find(getAccessedVariable(b));
  if (x != numberOf.end() && y != numberOf.end() &&
      variables[x->second].getType() == variables[y->second].getType() &&
      variables[x->second].getRole() == variables[y->second].getRole() &&
      storedAs.lookup(x->first) == storedAs.lookup(y->first))
    ties.variables.unionSets(x->second, y->second);
}

void TieFinder::uniteVariables() {
  findStorage();
  for (auto i = ties.ops.begin(); i != ties.ops.end(); ++i) {
    if (!i->isLeader())
      continue;
    Operation *first = ops[*ties.ops.member_begin(i)];
    for (auto member = ties.ops.member_begin(i);
         member != ties.ops.member_end(); ++member) {
      Operation *op = ops[*member];
      for (auto [a, b] : llvm::zip(first->getOperands(), op->getOperands()))
        uniteAccesses(a.getDefiningOp(), b.getDefiningOp());
    }
  }
  // The states of tied parameters are tied.
  std::map<std::pair<unsigned, StateKind>, unsigned> first;
  for (auto [i, variable] : llvm::enumerate(variables))
    if (std::optional<StateAttr> state = variable.getState()) {
      auto parameter = numberOf.find(state->getParameter().getAttr());
      if (parameter == numberOf.end())
        continue;
      unsigned leader = ties.variables.getLeaderValue(parameter->second);
      auto known = first.try_emplace({leader, state->getKind()}, i).first;
      ties.variables.unionSets(known->second, i);
    }
}

/// Unites the updates of tied parameters op by op, if they are equal, and the
/// ops that read their results.
void TieFinder::uniteUpdates() {
  // The updates that access the parameters of a class.
  llvm::MapVector<unsigned, SmallVector<SmallVector<unsigned>>> updatesOf;
  for (auto i = ties.updates.begin(); i != ties.updates.end(); ++i) {
    if (!i->isLeader())
      continue;
    SmallVector<unsigned> members(ties.updates.member_begin(i),
                                  ties.updates.member_end());
    llvm::sort(members);
    std::optional<unsigned> leader;
    for (unsigned member : members)
      for (Value operand : ops[member]->getOperands())
        if (auto load = operand.getDefiningOp<LoadOp>(); load && !leader) {
          auto number = numberOf.find(getAccessedVariable(load));
          if (number != numberOf.end())
            leader = ties.variables.getLeaderValue(number->second);
        }
    if (leader)
      updatesOf[*leader].push_back(std::move(members));
  }
  auto isEqual = [&](ArrayRef<unsigned> a, ArrayRef<unsigned> b) {
    return a.size() == b.size() &&
           llvm::all_of(llvm::zip(a, b), [&](auto pair) {
             return getOpShape(ops[std::get<0>(pair)]) ==
                    getOpShape(ops[std::get<1>(pair)]);
           });
  };
  auto uniteUsers = [&](Operation *a, Operation *b) {
    for (auto [x, y] : llvm::zip(a->getUsers(), b->getUsers())) {
      auto i = indexOf.find(x), j = indexOf.find(y);
      if (i != indexOf.end() && j != indexOf.end() && !ofModel.contains(x) &&
          !ofModel.contains(y) && getOpShape(x) == getOpShape(y))
        ties.ops.unionSets(i->second, j->second);
    }
  };
  for (auto &[leader, updates] : updatesOf)
    for (ArrayRef<unsigned> other : llvm::drop_begin(updates)) {
      if (!isEqual(updates.front(), other))
        continue;
      for (auto [a, b] : llvm::zip(updates.front(), other)) {
        ties.ops.unionSets(a, b);
        uniteUsers(ops[a], ops[b]);
      }
    }
}

Ties heddle::findTies(ModuleOp module, ArrayRef<Operation *> ops,
                      bool unitesLayers, const Plan *plan) {
  TieFinder finder(module, ops, plan);
  finder.findModel();
  finder.findUpdates();
  if (unitesLayers) {
    finder.uniteModel();
    finder.uniteVariables();
    finder.uniteUpdates();
  }
  finder.markModel();
  return std::move(finder.ties);
}
