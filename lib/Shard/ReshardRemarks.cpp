//===- ReshardRemarks.cpp - Says what moves, and what would not -----------===//

#include "ReshardRemarks.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// `{"dp", "tp"}`
static std::string describe(ArrayRef<StringAttr> axes) {
  std::string text = "{";
  for (StringAttr axis : axes)
    text += (text.size() == 1 ? "\"" : ", \"") + axis.str() + "\"";
  return text + "}";
}

/// `[{"dp"}, {}], partial sum {"tp"}`
static std::string describe(ShardingAttr sharding) {
  std::string text = "[";
  for (auto [i, dim] : llvm::enumerate(sharding.getDims()))
    text += (i ? ", " : "") + describe(dim.getAxes());
  text += "]";
  if (sharding.isPartial())
    text += ", partial " +
            stringifyReductionKind(sharding.getPartialKind()).str() + " " +
            describe(sharding.getPartialAxes());
  return text;
}

/// What a plan calls the op, or what it is.
static std::string describe(Operation *op) {
  if (auto load = dyn_cast<LoadOp>(op))
    return "variable '" + load.getVariable().str() + "'";
  if (auto store = dyn_cast<StoreOp>(op))
    return "variable '" + store.getVariable().str() + "'";
  if (StringRef name = getOpName(op); !name.empty())
    return "'" + name.str() + "' (" + op->getName().getStringRef().str() + ")";
  return "'" + op->getName().getStringRef().str() + "'";
}

static std::string describeProducer(Value value) {
  if (Operation *op = value.getDefiningOp())
    return describe(op);
  auto argument = cast<BlockArgument>(value);
  std::string text = "argument " + std::to_string(argument.getArgNumber());
  if (Operation *parent = argument.getOwner()->getParentOp();
      !isa_and_nonnull<func::FuncOp>(parent))
    text += " of " + describe(parent);
  return text;
}

static std::string describeUse(OpOperand &use) {
  if (isa<func::ReturnOp>(use.getOwner()))
    return "result " + std::to_string(use.getOperandNumber());
  // What uses a reshard and is one itself holds a value as it was pinned.
  if (isa<ReshardOp>(use.getOwner())) {
    Value pinned = use.get();
    while (auto reshard = pinned.getDefiningOp<ReshardOp>())
      pinned = reshard.getX();
    return "the pin of " + describeProducer(pinned);
  }
  return describe(use.getOwner());
}

//===----------------------------------------------------------------------===//
// What would avoid it
//===----------------------------------------------------------------------===//

namespace {

/// Another assignment of one op, by which a tensor of its would lie as wanted.
class Alternative {
public:
  Alternative(Operation *op, MeshRef mesh)
      : op(op), mesh(mesh), rule(getRule(op)), named(!getOpName(op).empty()) {
    // The op has been read before, so its factors are right.
    if (FailureOr<FactorAxes> read = readFactorAxes(op, rule, mesh.mesh);
        succeeded(read))
      known = axes = *read;
  }

  /// The factors of the op that have to change so that the operand is needed as
  /// `wanted`, as a plan writes them, or the attribute if the op
  /// has no name; empty, if none will do.
  std::string forOperand(unsigned index, ShardingAttr wanted) {
    if (wanted.isPartial() || !assign(rule.operands[index], wanted) ||
        getOperandSharding(rule, axes, index, mesh) != wanted)
      return "";
    return difference();
  }
  /// The same for a result that comes out as `wanted`.
  std::string forResult(unsigned index, ShardingAttr wanted) {
    if (!assign(rule.results[index], wanted))
      return "";
    // Sums that the wanted result has been through; a ring has them all.
    bool ring = rule.meet && axes[rule.meet->first] == axes[rule.meet->second];
    for (auto [i, factor] : llvm::enumerate(rule.factors))
      if (!(ring && (rule.meet->first == i || rule.meet->second == i)) &&
          (factor.kind == FactorKind::Sum || factor.kind == FactorKind::Max) &&
          !ShardingRule::runsOver(rule.results[index], i))
        llvm::erase_if(axes[i], [&](StringAttr axis) {
          return !llvm::is_contained(wanted.getPartialAxes(), axis);
        });
    if (getResultSharding(rule, axes, index, mesh) != wanted)
      return "";
    return difference();
  }

  /// What a device sends for all operands and results of the op: as it is, and
  /// with the alternative, nothing else changed.
  std::pair<int64_t, int64_t> getTraffic(ReshardSequences &sequences) const;

private:
  /// Splits the factors of a tensor as its dimensions are to be split.
  bool assign(const TensorFactors &tensor, ShardingAttr wanted) {
    if (axes.empty())
      return false;
    axes = known;
    for (const DimensionFactors &dim : tensor)
      for (unsigned factor : dim)
        axes[factor].clear();
    for (auto [dim, list] : llvm::zip(tensor, wanted.getDims())) {
      auto lists = distributeAxes(dim, rule, list.getAxes(), mesh.mesh);
      for (auto [factor, mine] : llvm::zip(dim, lists)) {
        if (!mine.empty() && rule.factors[factor].kind == FactorKind::Replicate)
          return false;
        axes[factor] = mine;
      }
    }
    // An axis splits one factor, or two that meet and have the same axes: what
    // the tensor is to have counts.
    while (auto shared = findSharedAxis(rule, axes)) {
      bool second = !ShardingRule::runsOver(tensor, shared->second);
      if (shared->first == shared->second)
        return false;
      llvm::erase(axes[second ? shared->second : shared->first], shared->axis);
    }
    return isRepresentable(rule, axes, mesh.mesh);
  }

  std::string difference() const {
    std::string text;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] == known[i])
        continue;
      // A plan speaks of named operators by the names of their factors alone.
      if (named && rule.factors[i].name.empty())
        return "";
      std::string list;
      for (StringAttr axis : axes[i])
        list += (list.empty() ? "\"" : ", \"") + axis.str() + "\"";
      text += text.empty() ? "\"" : ", \"";
      text += getFactorKey(rule, i);
      text += named ? "\": [" : "\" = {";
      text += list;
      text += named ? "]" : "}";
    }
    return text;
  }

  Operation *op;
  MeshRef mesh;
  ShardingRule rule;
  bool named;
  FactorAxes known, axes;
};

} // namespace

std::pair<int64_t, int64_t>
Alternative::getTraffic(ReshardSequences &sequences) const {
  int64_t before = 0, after = 0;
  auto add = [&](RankedTensorType type, ShardingAttr oldFrom,
                 ShardingAttr oldTo, ShardingAttr newFrom, ShardingAttr newTo) {
    before += sequences.getCost(type, oldFrom, oldTo).bytes;
    after += sequences.getCost(type, newFrom, newTo).bytes;
  };
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type)
      continue;
    unsigned i = operand.getOperandNumber();
    ShardingAttr need = getOperandSharding(rule, known, i, mesh);
    ShardingAttr newNeed = getOperandSharding(rule, axes, i, mesh);
    if (auto reshard = operand.get().getDefiningOp<ReshardOp>())
      add(type, reshard.getFrom(), reshard.getTo(), reshard.getFrom(),
          need == newNeed ? reshard.getTo() : newNeed);
    else
      add(type, need, need, need, newNeed);
  }
  for (OpResult result : op->getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type)
      continue;
    unsigned i = result.getResultNumber();
    ShardingAttr made = getResultSharding(rule, known, i, mesh);
    ShardingAttr newMade = getResultSharding(rule, axes, i, mesh);
    bool isUsedAsMade = false;
    for (Operation *user : result.getUsers()) {
      auto reshard = dyn_cast<ReshardOp>(user);
      isUsedAsMade |= !reshard;
      if (reshard)
        add(type, reshard.getFrom(), reshard.getTo(),
            made == newMade ? reshard.getFrom() : newMade, reshard.getTo());
    }
    if (isUsedAsMade)
      add(type, made, made, newMade, made);
  }
  return {before, after};
}

/// Whether each dimension of `more` is split by the axes of `less` and then by
/// others.
static bool refines(ShardingAttr more, ShardingAttr less) {
  return llvm::all_of(llvm::zip(more.getDims(), less.getDims()), [](auto pair) {
    auto [a, b] = pair;
    return a.getAxes().take_front(b.getAxes().size()) == b.getAxes();
  });
}

namespace {

/// The notes of one remark: what would keep the tensor where it is.
class Advice {
public:
  Advice(InFlightDiagnostic &remark, ReshardOp reshard, OpOperand &use,
         MeshRef mesh, ReshardSequences &sequences)
      : remark(remark), reshard(reshard), use(use), mesh(mesh),
        sequences(sequences) {}

  void give() {
    bool atProducer = adviseProducer();
    if (!adviseUse() && !atProducer)
      remark.attachNote(reshard.getX().getLoc())
          << "it would not move if " << describeProducer(reshard.getX())
          << " made it as " << describe(reshard.getTo()) << " or "
          << describeUse(use) << " took it as " << describe(reshard.getFrom())
          << ", which no factors of one of the two alone do";
  }

private:
  bool adviseProducer();
  bool adviseUse();
  bool adviseStorage(Operation *access, StringRef variable, ShardingAttr stored,
                     ShardingAttr wanted);
  bool adviseFactors(Operation *op, const Alternative &alternative,
                     const std::string &factors);

  InFlightDiagnostic &remark;
  ReshardOp reshard;
  OpOperand &use;
  MeshRef mesh;
  ReshardSequences &sequences;
};

} // namespace

bool Advice::adviseStorage(Operation *access, StringRef variable,
                           ShardingAttr stored, ShardingAttr wanted) {
  if (stored.isPartial()) {
    remark.attachNote(access->getLoc())
        << "variable '" << variable
        << "' adds up what all micro-batches have left to be summed: once a "
           "step is the least";
    return true;
  }
  if (wanted.isPartial())
    return false;
  auto type = cast<RankedTensorType>(reshard.getType());
  Diagnostic &note = remark.attachNote(access->getLoc());
  note << "it would not move if variable '" << variable << "' were stored as "
       << describe(wanted);
  if (refines(stored, wanted))
    note << ": \"storage\": {\"" << variable << "\": {}}";
  note << "; a device would hold "
       << getBytes(wanted.getLocalType(type, mesh.mesh)) << " bytes of it, not "
       << getBytes(stored.getLocalType(type, mesh.mesh));
  return true;
}

bool Advice::adviseFactors(Operation *op, const Alternative &alternative,
                           const std::string &factors) {
  if (factors.empty())
    return false;
  Diagnostic &note = remark.attachNote(op->getLoc());
  note << "it would not move if " << describe(op) << " had ";
  if (StringRef name = getOpName(op); !name.empty())
    note << "\"operators\": {\"" << name << "\": {" << factors << "}}";
  else
    note << "heddle.factors = #heddle.factors<[" << factors << "]>";
  auto [before, after] = alternative.getTraffic(sequences);
  note << "; for all that this op reads and makes a device would send " << after
       << " bytes, not " << before;
  return true;
}

bool Advice::adviseProducer() {
  auto result = dyn_cast<OpResult>(reshard.getX());
  ShardingAttr to = reshard.getTo();
  if (!result) {
    if (!isa<func::FuncOp>(reshard->getParentOp()))
      return false;
    remark.attachNote(reshard.getX().getLoc())
        << "it would not move if " << describeProducer(reshard.getX())
        << " came as " << describe(to);
    return true;
  }
  Operation *op = result.getOwner();
  if (auto load = dyn_cast<LoadOp>(op))
    return adviseStorage(op, load.getVariable(), reshard.getFrom(), to);
  if (auto pin = dyn_cast<ReshardOp>(op)) {
    remark.attachNote(op->getLoc())
        << "it would not move if the pin of " << describeProducer(pin.getX())
        << " were " << describe(to);
    return true;
  }
  Alternative alternative(op, mesh);
  std::string factors = alternative.forResult(result.getResultNumber(), to);
  return adviseFactors(op, alternative, factors);
}

bool Advice::adviseUse() {
  Operation *op = use.getOwner();
  ShardingAttr from = reshard.getFrom();
  if (isa<ReshardOp>(op) || from.isPartial())
    return false;
  if (isa<func::ReturnOp>(op)) {
    remark.attachNote(op->getLoc())
        << "it would not move if " << describeUse(use) << " were given as "
        << describe(from);
    return true;
  }
  if (auto store = dyn_cast<StoreOp>(op))
    return adviseStorage(op, store.getVariable(), reshard.getTo(), from);
  Alternative alternative(op, mesh);
  std::string factors = alternative.forOperand(use.getOperandNumber(), from);
  return adviseFactors(op, alternative, factors);
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

void heddle::emitReshardRemarks(func::FuncOp function, MeshRef mesh,
                                ReshardSequences &sequences,
                                int64_t leastBytes) {
  function.walk([&](ReshardOp reshard) {
    auto type = cast<RankedTensorType>(reshard.getType());
    CollectiveCost cost =
        sequences.getCost(type, reshard.getFrom(), reshard.getTo());
    if (cost.bytes < leastBytes || reshard->use_empty())
      return;
    // A value's list of uses has the latest first.
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : reshard->getUses())
      uses.push_back(&use);
    OpOperand &use = *uses.back();
    std::string steps;
    for (const ReshardStep &step :
         sequences.plan(type, reshard.getFrom(), reshard.getTo()))
      steps += (steps.empty() ? "" : ", ") +
               stringifyReshardingKind(step.kind).str() + " over " +
               describe(step.axes);
    std::string time;
    llvm::raw_string_ostream(time) << llvm::format("%.3g", cost.seconds * 1e3);
    size_t others = uses.size() - 1;
    InFlightDiagnostic remark = emitRemark(use.getOwner()->getLoc());
    remark << "in @" << function.getName() << ", " << describeUse(use);
    if (others > 0)
      remark << " and " << others << " more";
    remark << (others > 0 ? " need " : " needs ") << type << " of "
           << describeProducer(reshard.getX()) << " as "
           << describe(reshard.getTo()) << ", but it lies as "
           << describe(reshard.getFrom()) << ": " << steps
           << "; a device sends " << cost.bytes << " bytes in " << time
           << " ms on '" << sequences.getTopology().getCluster().name << "'";
    Advice(remark, reshard, use, mesh, sequences).give();
  });
}
