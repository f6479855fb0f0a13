//===- ReshardRemarks.cpp - Remarks on reshards and ways round them -------===//

#include "ReshardRemarks.h"
#include "Alternative.h"
#include "CommunicationRemarks.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Updates of variables
//===----------------------------------------------------------------------===//

/// Returns whether the op may be a part of a variable's update: a reshard, or
/// an elementwise op that is no named operator.
static bool isOfUpdate(Operation *op) {
  return isa<ReshardOp>(op) ||
         (op->hasTrait<OpTrait::Elementwise>() && getOpName(op).empty());
}

/// Returns the loads and stores of variables that are connected with the op
/// through unnamed elementwise ops on tensors of its result's shape, the
/// nearest first. Empty unless the op is itself elementwise and unnamed.
static SmallVector<Operation *> findAccesses(Operation *op) {
  SmallVector<Operation *> accesses;
  if (!isOfUpdate(op) || op->getNumResults() != 1)
    return accesses;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || type.getRank() == 0)
    return accesses;
  llvm::SetVector<Operation *> known;
  known.insert(op);
  for (size_t i = 0; i < known.size(); ++i) {
    Operation *current = known[i];
    if (isa<LoadOp, StoreOp>(current)) {
      accesses.push_back(current);
      continue;
    }
    if (!isOfUpdate(current))
      continue;
    for (Value operand : current->getOperands())
      if (auto other = dyn_cast<RankedTensorType>(operand.getType());
          other && other.getShape() == type.getShape())
        if (Operation *maker = operand.getDefiningOp())
          known.insert(maker);
    for (Operation *user : current->getUsers())
      known.insert(user);
  }
  return accesses;
}

static StringRef getVariable(Operation *access) {
  if (auto load = dyn_cast<LoadOp>(access))
    return load.getVariable();
  return cast<StoreOp>(access).getVariable();
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// Describes an op. An unnamed op is described by the variable that it updates,
/// and preferably by a parameter.
static std::string describe(Operation *op) {
  std::string text = describeOperator(op);
  if (isa<LoadOp, StoreOp>(op) || !getOpName(op).empty())
    return text;
  StoreOp updated;
  for (Operation *access : findAccesses(op)) {
    auto store = dyn_cast<StoreOp>(access);
    if (!store)
      continue;
    auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(
        op, store.getVariableAttr());
    if (!updated)
      updated = store;
    if (variable && variable.getRole() == VariableRole::Parameter) {
      updated = store;
      break;
    }
  }
  return updated ? text + " of the update of " + describeOperator(updated)
                 : text;
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
  // A reshard whose operand is a reshard's result makes the sharding of a pin.
  if (isa<ReshardOp>(use.getOwner())) {
    Value pinned = use.get();
    while (auto reshard = pinned.getDefiningOp<ReshardOp>())
      pinned = reshard.getX();
    return "the pin of " + describeProducer(pinned);
  }
  return describe(use.getOwner());
}

//===----------------------------------------------------------------------===//
// Advice
//===----------------------------------------------------------------------===//

/// Returns whether `more` splits each dimension by the axes of `less`, perhaps
/// followed by other axes.
static bool refines(ShardingAttr more, ShardingAttr less) {
  return llvm::all_of(llvm::zip(more.getDims(), less.getDims()), [](auto pair) {
    auto [a, b] = pair;
    return a.getAxes().take_front(b.getAxes().size()) == b.getAxes();
  });
}

namespace {

/// The data that all remarks on a function look up.
struct Surroundings {
  MeshRef mesh;
  ReshardSequences &sequences;
  SymbolTable variables;
  /// Whether the program has optimizer ops. A user cannot write their factors.
  bool hasTrainingState;
};

/// Adds the notes of one remark: changes that would make the reshard
/// unnecessary.
class Advice {
public:
  Advice(SmallVectorImpl<CommunicationRemark::Note> &notes, ReshardOp reshard,
         OpOperand &use, Surroundings &surroundings)
      : notes(notes), reshard(reshard), use(use), surroundings(surroundings) {}

  void give() {
    bool atProducer = adviseProducer();
    if (adviseUse() || atProducer)
      return;
    std::string text =
        "it would not move if " + describeProducer(reshard.getX()) +
        " made it as " + describeSharding(reshard.getTo()) + " or " +
        describeUse(use) + " took it as " + describeSharding(reshard.getFrom());
    if (!isMadeByUs)
      text += ", which no factors of one of the two alone do";
    notes.push_back({reshard.getX().getLoc(), text});
  }

private:
  bool adviseProducer();
  bool adviseUse();
  bool adviseStorage(Operation *access, ShardingAttr stored,
                     ShardingAttr wanted) {
    return adviseStorage(access->getLoc(), {getVariable(access)}, stored,
                         wanted);
  }
  bool adviseStorage(Location location, ArrayRef<StringRef> variables,
                     ShardingAttr stored, ShardingAttr wanted);
  bool adviseState(Operation *op, ShardingAttr stored, ShardingAttr wanted);
  bool adviseFactors(Operation *op, const Alternative &alternative);

  SmallVectorImpl<CommunicationRemark::Note> &notes;
  ReshardOp reshard;
  OpOperand &use;
  Surroundings &surroundings;
  /// Whether a note on factors was left out because the op has no name in a
  /// plan and a pass, not the user, wrote it.
  bool isMadeByUs = false;
};

} // namespace

bool Advice::adviseStorage(Location location, ArrayRef<StringRef> variables,
                           ShardingAttr stored, ShardingAttr wanted) {
  if (stored.isPartial()) {
    notes.push_back({location, "variable '" + variables.front().str() +
                                   "' adds up what all micro-batches have left "
                                   "to be summed: once a step is the least"});
    return true;
  }
  if (wanted.isPartial())
    return false;
  CommunicationRemark::Note note{location, ""};
  std::string quoted, storage;
  int64_t before = 0, after = 0;
  for (StringRef name : variables) {
    auto variable = surroundings.variables.lookup<VariableOp>(name);
    if (!variable)
      return false;
    RankedTensorType type = variable.getTensorType();
    MeshAttr mesh = surroundings.mesh.mesh;
    before += getBytes(stored.getLocalType(type, mesh));
    after += getBytes(wanted.getLocalType(type, mesh));
    quoted += (quoted.empty() ? "'" : ", '") + name.str() + "'";
    storage += (storage.empty() ? "\"" : ", \"") + name.str() + "\": {}";
    note.names.push_back(name.str());
  }
  bool isOne = variables.size() == 1;
  note.text = std::string("it would not move if variable") +
              (isOne ? " " : "s ") + quoted + " were stored as " +
              describeSharding(wanted);
  if (refines(stored, wanted))
    note.text += ": \"storage\": {" + storage + "}";
  note.text += "; a device would hold " + std::to_string(after) + " bytes of " +
               (isOne ? "it" : "them") + ", not " + std::to_string(before);
  notes.push_back(note);
  return true;
}

/// Advises another storage of the state that an update reads and writes. The
/// update is computed in the sharding of its state.
bool Advice::adviseState(Operation *op, ShardingAttr stored,
                         ShardingAttr wanted) {
  llvm::SetVector<StringRef> state;
  for (Operation *access : findAccesses(op)) {
    StringRef name = getVariable(access);
    auto variable = surroundings.variables.lookup<VariableOp>(name);
    if (variable && variable.getStorageAttr() == stored)
      state.insert(name);
  }
  return !state.empty() && !stored.isPartial() &&
         adviseStorage(op->getLoc(), state.getArrayRef(), stored, wanted);
}

bool Advice::adviseFactors(Operation *op, const Alternative &alternative) {
  std::string change = alternative.describe();
  if (change.empty())
    return false;
  StringRef name = getOpName(op);
  if (name.empty() && surroundings.hasTrainingState) {
    isMadeByUs = true;
    return false;
  }
  CommunicationRemark::Note note{
      op->getLoc(), "it would not move if " + describe(op) + " had " + change +
                        "; for all that this op reads and makes " +
                        alternative.describeTraffic(surroundings.sequences)};
  if (!name.empty())
    note.names.push_back(name.str());
  notes.push_back(note);
  return true;
}

bool Advice::adviseProducer() {
  auto result = dyn_cast<OpResult>(reshard.getX());
  ShardingAttr from = reshard.getFrom(), to = reshard.getTo();
  std::string wanted = describeSharding(to);
  if (!result) {
    if (!isa<func::FuncOp>(reshard->getParentOp()))
      return false;
    notes.push_back(
        {reshard.getX().getLoc(), "it would not move if " +
                                      describeProducer(reshard.getX()) +
                                      " came as " + wanted});
    return true;
  }
  Operation *op = result.getOwner();
  if (isa<LoadOp>(op))
    return adviseStorage(op, from, to);
  if (auto pin = dyn_cast<ReshardOp>(op)) {
    notes.push_back({op->getLoc(), "it would not move if the pin of " +
                                       describeProducer(pin.getX()) + " were " +
                                       wanted});
    return true;
  }
  if (surroundings.hasTrainingState && adviseState(op, from, to))
    return true;
  Alternative alternative(op, surroundings.mesh);
  return alternative.changeForResult(result.getResultNumber(), to) &&
         adviseFactors(op, alternative);
}

bool Advice::adviseUse() {
  Operation *op = use.getOwner();
  ShardingAttr from = reshard.getFrom(), to = reshard.getTo();
  if (isa<ReshardOp>(op) || from.isPartial())
    return false;
  if (isa<func::ReturnOp>(op)) {
    notes.push_back({op->getLoc(), "it would not move if " + describeUse(use) +
                                       " were given as " +
                                       describeSharding(from)});
    return true;
  }
  if (isa<StoreOp>(op))
    return adviseStorage(op, to, from);
  if (surroundings.hasTrainingState && adviseState(op, to, from))
    return true;
  Alternative alternative(op, surroundings.mesh);
  return alternative.changeForOperand(use.getOperandNumber(), from) &&
         adviseFactors(op, alternative);
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

void heddle::emitReshardRemarks(func::FuncOp function, MeshRef mesh,
                                ReshardSequences &sequences,
                                int64_t leastBytes) {
  CommunicationRemarks remarks(leastBytes,
                               sequences.getTopology().getCluster().name);
  auto module = function->getParentOfType<ModuleOp>();
  Surroundings surroundings{
      mesh, sequences, SymbolTable(module),
      llvm::any_of(module.getOps<VariableOp>(), [](VariableOp variable) {
        return variable.getRole() != VariableRole::Parameter;
      })};
  function.walk([&](ReshardOp reshard) {
    auto type = cast<RankedTensorType>(reshard.getType());
    CollectiveCost cost =
        sequences.getCost(type, reshard.getFrom(), reshard.getTo());
    if (!remarks.isWanted(cost) || reshard->use_empty())
      return;
    // A value's list of uses begins with the last use.
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : reshard->getUses())
      uses.push_back(&use);
    OpOperand &use = *uses.back();
    size_t others = uses.size() - 1;
    std::string subject = describeUse(use);
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << "in @" << function.getName() << ", " << subject;
    if (others > 0)
      stream << " and " << others << " more";
    stream << (others > 0 ? " need '" : " needs '") << type << "' of "
           << describeProducer(reshard.getX()) << " as "
           << describeSharding(reshard.getTo()) << ", but it lies as "
           << describeSharding(reshard.getFrom()) << ": ";
    llvm::interleaveComma(
        sequences.plan(type, reshard.getFrom(), reshard.getTo()), stream,
        [&](const ReshardStep &step) {
          stream << stringifyReshardingKind(step.kind) << " over "
                 << describeAxes(step.axes);
        });
    CommunicationRemark remark{use.getOwner()->getLoc(), subject, stream.str(),
                               cost};
    Advice(remark.notes, reshard, use, surroundings).give();
    remarks.add(std::move(remark));
  });
  remarks.emit(module);
}
