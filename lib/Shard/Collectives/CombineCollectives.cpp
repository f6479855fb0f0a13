//===- CombineCollectives.cpp - heddle-combine-collectives ----------------===//

#include "ExchangeTogether.h"
#include "SmallWeights.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/FactorShardings.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {
#define GEN_PASS_DEF_COMBINECOLLECTIVESPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
using comm::AllReduceOp;

namespace {

/// What all members of a group share: the name of the op, the mesh, the axes
/// and the kind of reduction, and the type of tensors (all-reduces of one type)
/// or of elements (gradients in a bucket).
using Key = std::tuple<const void *, Attribute, Attribute, Attribute, Type>;

struct Group {
  SmallVector<Operation *> members;
  int64_t bytes = 0;
};

/// Combines reductions where the last of them stands.
class Combiner {
public:
  Combiner(Block &block, const CombineCollectivesPassOptions &options)
      : block(block), options(options) {}
  void run();

private:
  /// Returns the key that all members of a group share. Returns nothing for an
  /// op that is not to be combined.
  std::optional<Key> getKey(Operation *op) const;
  bool isSmallGradient(Operation *op) const {
    return gradients.contains(op) &&
           getBytes(op->getOperand(0).getType()) <= options.maxWeight;
  }
  SmallVector<Group> findGroups();
  /// Finds the large collectives that each op depends on.
  void findAwaited();
  /// Returns whether each of the two ops depends on a large collective that the
  /// other does not depend on. Then they serve work that goes on side by side,
  /// such as two parts of a batch. If they were combined, each part would have
  /// to wait for the large collectives of the other.
  bool areApart(Operation *a, Operation *b) const;
  /// Combines a group. Returns false, and changes nothing, if a member depends
  /// on another member or if a store would move past an access of its variable.
  bool combine(SmallVector<Operation *> members);

  Block &block;
  const CombineCollectivesPassOptions &options;
  llvm::DenseSet<Operation *> gradients;
  /// By op: the numbers of the collectives.
  llvm::DenseMap<Operation *, llvm::BitVector> awaited;
};

} // namespace

/// Returns all values that an op or an op in its regions uses.
static SmallVector<Value> getUsedValues(Operation *op) {
  SmallVector<Value> values(op->getOperands());
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) {
      llvm::append_range(values, inner->getOperands());
    });
  return values;
}

std::optional<Key> Combiner::getKey(Operation *op) const {
  if (!isa<AllReduceOp, comm::ReduceScatterOp>(op))
    return std::nullopt;
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  bool isGradient = isSmallGradient(op);
  if (!isGradient &&
      (!isa<AllReduceOp>(op) || getBytes(type) > options.maxBytes))
    return std::nullopt;
  return Key{op->getName().getAsOpaquePointer(), op->getAttr("mesh"),
             op->getAttr("axes"), op->getAttr("kind"),
             isGradient ? type.getElementType() : Type(type)};
}

void Combiner::findAwaited() {
  awaited.clear();
  unsigned count = 0;
  auto isLarge = [&](Operation &op) {
    return op.hasTrait<comm::Collective>() &&
           getBytes(op.getOperand(0).getType()) > options.maxBytes;
  };
  for (Operation &op : block)
    count += isLarge(op);
  unsigned number = 0;
  for (Operation &op : block) {
    llvm::BitVector all(count);
    for (Value operand : getUsedValues(&op))
      if (auto known = awaited.find(operand.getDefiningOp());
          known != awaited.end())
        all |= known->second;
    if (isLarge(op))
      all.set(number++);
    if (all.any())
      awaited.try_emplace(&op, std::move(all));
  }
}

bool Combiner::areApart(Operation *a, Operation *b) const {
  auto ofA = awaited.find(a), ofB = awaited.find(b);
  return ofA != awaited.end() && ofB != awaited.end() &&
         ofA->second.test(ofB->second) && ofB->second.test(ofA->second);
}

/// Groups the reductions in one pass, in program order. Each joins the open
/// group of its key. It closes that group and opens a new one if it depends on
/// a member, if gradients fill the bucket, or if it is apart from its last
/// member. `dependsOn` has, for each op, the open groups with members on which
/// the op depends.
SmallVector<Group> Combiner::findGroups() {
  llvm::MapVector<Key, unsigned> open;
  SmallVector<Group> groups;
  llvm::DenseMap<Operation *, SmallVector<unsigned, 2>> dependsOn;
  llvm::DenseSet<unsigned> closed;
  for (Operation &op : block) {
    SmallVector<unsigned, 2> mine;
    for (Value operand : getUsedValues(&op))
      if (auto known = dependsOn.find(operand.getDefiningOp());
          known != dependsOn.end())
        for (unsigned group : known->second)
          if (!closed.contains(group) && !llvm::is_contained(mine, group))
            mine.push_back(group);
    if (std::optional<Key> key = getKey(&op)) {
      int64_t bytes = getBytes(op.getOperand(0).getType());
      auto [entry, isNew] = open.try_emplace(*key, groups.size());
      bool isFull = !isNew && isSmallGradient(&op) &&
                    groups[entry->second].bytes + bytes > options.bucket;
      bool isApart = !isNew && !isSmallGradient(&op) &&
                     areApart(groups[entry->second].members.back(), &op);
      if (!isNew &&
          (isFull || isApart || llvm::is_contained(mine, entry->second))) {
        llvm::erase(mine, entry->second);
        closed.insert(entry->second);
        entry->second = groups.size();
      }
      if (entry->second == groups.size())
        groups.emplace_back();
      groups[entry->second].members.push_back(&op);
      groups[entry->second].bytes += bytes;
      mine.push_back(entry->second);
    }
    if (!mine.empty())
      dependsOn.try_emplace(&op, std::move(mine));
  }
  llvm::erase_if(groups,
                 [](const Group &group) { return group.members.size() < 2; });
  return groups;
}

/// Returns the variables that an op and its regions access. A null entry stands
/// for any variable: a function is called.
static SmallVector<Attribute> getAccesses(Operation *op) {
  SmallVector<Attribute> variables;
  op->walk([&](Operation *inner) {
    if (auto load = dyn_cast<LoadOp>(inner))
      variables.push_back(load.getVariableAttr());
    else if (auto store = dyn_cast<StoreOp>(inner))
      variables.push_back(store.getVariableAttr());
    else if (isa<func::CallOp>(inner))
      variables.push_back({});
  });
  return variables;
}

/// Returns the "servants" of the `moving` ops: ops between `first` and `last`
/// that compute from variables and constants only, and whose results only
/// moving ops and other servants use. Servants move, too. Otherwise they would
/// be in other kernels than the moved ops, and their results would live until
/// these ops run.
static SmallVector<Operation *>
findServants(Operation *first, Operation *last,
             const llvm::DenseSet<Operation *> &moving) {
  llvm::DenseSet<Attribute> stored;
  SmallVector<Operation *> candidates;
  llvm::DenseSet<Operation *> fromVariables;
  for (auto it = Block::iterator(first); &*it != last; ++it) {
    Operation *op = &*it;
    if (moving.contains(op))
      continue;
    if (auto store = dyn_cast<StoreOp>(op))
      stored.insert(store.getVariableAttr());
    bool isReady =
        isa<LoadOp>(op) ||
        (isPure(op) && llvm::all_of(op->getOperands(), [&](Value v) {
           Operation *source = v.getDefiningOp();
           return source &&
                  (fromVariables.contains(source) || isa<LoadOp>(source) ||
                   source->hasTrait<OpTrait::ConstantLike>());
         }));
    if (!isReady)
      continue;
    fromVariables.insert(op);
    candidates.push_back(op);
  }
  llvm::DenseSet<Operation *> served(moving);
  SmallVector<Operation *> servants;
  for (Operation *op : llvm::reverse(candidates)) {
    auto load = dyn_cast<LoadOp>(op);
    if (op->use_empty() || (load && stored.contains(load.getVariableAttr())) ||
        llvm::any_of(op->getUsers(),
                     [&](Operation *user) { return !served.contains(user); }))
      continue;
    served.insert(op);
    servants.push_back(op);
  }
  return servants;
}

bool Combiner::combine(SmallVector<Operation *> group) {
  // Sorts again, because an earlier combination may have moved members.
  llvm::sort(group,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  Operation *last = group.back();
  llvm::DenseSet<Operation *> members(group.begin(), group.end());
  // Users of an earlier member move behind the last member, in order.
  llvm::DenseSet<Operation *> dependent;
  llvm::DenseSet<Attribute> stored;
  SmallVector<Operation *> later;
  auto isDependent = [&](Operation *op) {
    return llvm::any_of(getUsedValues(op), [&](Value operand) {
      return dependent.contains(operand.getDefiningOp());
    });
  };
  for (auto it = Block::iterator(group.front()); &*it != last; ++it) {
    Operation *op = &*it;
    bool isMember = members.contains(op);
    if (isMember && isDependent(op))
      return false;
    if (!isMember && !isDependent(op)) {
      for (Attribute variable : getAccesses(op))
        if (stored.contains(variable) || stored.contains(Attribute()) ||
            (!variable && !stored.empty()))
          return false;
      continue;
    }
    dependent.insert(op);
    if (isMember)
      continue;
    later.push_back(op);
    for (Attribute variable : getAccesses(op))
      stored.insert(variable);
  }
  if (isDependent(last))
    return false;
  llvm::DenseSet<Operation *> moving(later.begin(), later.end());
  SmallVector<Operation *> servants = findServants(group.front(), last, moving);
  moving.insert(servants.begin(), servants.end());
  later.clear();
  for (auto it = Block::iterator(group.front()); &*it != last; ++it)
    if (moving.contains(&*it))
      later.push_back(&*it);
  OpBuilder builder(last);
  SmallVector<Value> results = exchangeTogether(builder, group);
  for (Operation *op : llvm::reverse(later))
    op->moveAfter(last);
  for (auto [reduce, result] : llvm::zip(group, results)) {
    reduce->getResult(0).replaceAllUsesWith(result);
    reduce->erase();
  }
  return true;
}

void Combiner::run() {
  // A combination adds dependences between ops, which may break other groups.
  // So groups are found again until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    gradients = findGradientReductions(block);
    findAwaited();
    for (const Group &group : findGroups())
      changed |= combine(group.members);
  }
}

namespace {
struct CombineCollectivesPass
    : heddle::impl::CombineCollectivesPassBase<CombineCollectivesPass> {
  using Base::Base;

  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    Block &block = getOperation().getBody().front();
    CombineCollectivesPassOptions options{maxBytes, maxWeight, bucket};
    combineWeightGathers(block, maxWeight, bucket);
    Combiner(block, options).run();
  }
};
} // namespace
