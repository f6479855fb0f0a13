//===- Program.cpp - A global program as a planner sees it ----------------===//

#include "Liveness.h"
#include "ProgramReader.h"
#include "heddle/Sharding/Boundaries.h"
#include "heddle/Sharding/ControlFlow.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Ops and classes
//===----------------------------------------------------------------------===//

/// Returns whether every use gets its own copy of the result, in the layout
/// that the use needs. This holds for a value that is made of scalars.
static bool isFree(Operation *op) {
  auto isScalar = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return !isa<TensorType>(type) || (tensor && tensor.getRank() == 0);
  };
  return getOpName(op).empty() && isMemoryEffectFree(op) &&
         op->getNumRegions() == 0 &&
         llvm::all_of(op->getOperandTypes(), isScalar) &&
         !llvm::all_of(op->getResultTypes(), isScalar);
}

LogicalResult ProgramReader::collectOps() {
  if (failed(verifyNoRecursion(module)))
    return failure();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || stepWeights.get(function) == 0)
      continue;
    LogicalResult status = success();
    forEachOp(function, [&](Operation *op) {
      if (isControlFlow(op) || !hasFactors(op) || isFree(op))
        return;
      if (!isa<ShardingRuleOpInterface>(op) && op->getNumRegions() != 0)
        status = op->emitOpError()
                 << "cannot be planned: it has regions and no sharding rule";
      indexOf[op] = ops.size();
      ops.push_back(op);
      weights.push_back(stepWeights.get(op));
    });
    if (failed(status))
      return failure();
  }
  return success();
}

void ProgramReader::makeClasses() {
  ties = findTies(module, ops, options.unitesLayers, options.plan);
  DenseMap<unsigned, unsigned> classOfLeader;
  for (auto [i, op] : llvm::enumerate(ops)) {
    unsigned leader = ties.ops.getLeaderValue(i);
    auto [known, isNew] = classOfLeader.try_emplace(leader, program.ops.size());
    if (isNew) {
      program.ops.emplace_back();
      OpClass &made = program.ops.back();
      made.rule = getRule(op);
      made.isFusable = isFusableOp(op, made.rule);
      made.live.assign(op->getNumResults(), 0);
      groups.insert(known->second);
    }
    program.ops[known->second].ops.push_back(op);
    program.ops[known->second].weight += weights[i];
    classOf[op] = known->second;
  }
  auto isFusable = [&](Operation *op) {
    auto found = classOf.find(op);
    return found != classOf.end() && program.ops[found->second].isFusable;
  };
  for (OpClass &made : program.ops)
    findKernelBorders(made, isFusable, indexOf);
  if (!options.keepsActivations)
    return;
  for (auto &[op, result, count] : findLiveAtPeak(ops, isFusable))
    program.ops[classOf[op]].live[result] += count;
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

/// Unites tied variables in classes.
void ProgramReader::addVariables() {
  DenseMap<unsigned, unsigned> classOfLeader;
  unsigned number = 0;
  for (VariableOp variable : module.getOps<VariableOp>()) {
    auto [known, isNew] = classOfLeader.try_emplace(
        ties.variables.getLeaderValue(number++), program.variables.size());
    if (isNew)
      program.variables.emplace_back();
    program.variables[known->second].variables.push_back(variable);
    variableOf[variable.getSymNameAttr()] = known->second;
  }
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Returns whether a plan can name the factor, and the factor can be split.
static bool isSayable(const OpClass &made, unsigned factor) {
  const Factor &what = made.rule.factors[factor];
  return !what.name.empty() && what.kind != FactorKind::Replicate &&
         what.size > 1 && !getOpName(made.op()).empty();
}

/// Unites classes that have a factor of the same name, because a plan gives
/// both factors the same axes.
void ProgramReader::uniteNames() {
  std::map<std::pair<std::string, std::string>, unsigned> first;
  for (auto [i, made] : llvm::enumerate(program.ops))
    for (Operation *op : made.ops) {
      StringRef name = getOpName(op);
      if (name.empty())
        continue;
      for (auto [f, factor] : llvm::enumerate(made.rule.factors))
        if (isSayable(made, f))
          groups.unionSets(
              i, first.try_emplace({name.str(), factor.name}, i).first->second);
    }
}

/// Returns whether the op adds scalars, or otherwise uses all its operands as
/// summands.
static bool isScalarSum(const OpClass &made) {
  return made.rule.factors.empty() && made.rule.defersPartialSums &&
         !made.rule.linear.empty() &&
         made.rule.linear.front().operands.size() ==
             made.op()->getNumOperands();
}

/// Unites chains of sums of scalars, such as the norm of all gradients, because
/// all of them are partial sums or none is.
void ProgramReader::uniteScalarSums() {
  for (auto [i, made] : llvm::enumerate(program.ops)) {
    if (!isScalarSum(made) || ties.isOfModel[indexOf[made.op()]])
      continue;
    for (Operation *op : made.ops)
      for (Operation *user : op->getUsers())
        if (auto found = classOf.find(user);
            found != classOf.end() && !ties.isOfModel[indexOf[user]] &&
            isScalarSum(program.ops[found->second]))
          groups.unionSets(i, found->second);
  }
}

/// Unites the ops that update one variable. They have the layout of its state.
void ProgramReader::uniteUpdates() {
  for (auto i = ties.updates.begin(); i != ties.updates.end(); ++i) {
    if (!i->isLeader())
      continue;
    unsigned first = classOf[ops[*ties.updates.member_begin(i)]];
    for (auto member = ties.updates.member_begin(i);
         member != ties.updates.member_end(); ++member) {
      unsigned made = classOf[ops[*member]];
      updates.insert(made);
      groups.unionSets(first, made);
    }
  }
}

/// Finds the ops that only cast a loaded parameter for ops of a group. They get
/// the layout that these ops need, as in propagation.
void ProgramReader::findFollowers() {
  for (auto [i, made] : llvm::enumerate(program.ops)) {
    Operation *op = made.op();
    if (!getOpName(op).empty() || updates.contains(i) ||
        op->getNumOperands() != 1 || op->getNumResults() != 1 ||
        !op->getOperand(0).getDefiningOp<LoadOp>() || !isAligned(made.rule))
      continue;
    for (OpOperand &use : op->getResult(0).getUses()) {
      auto user = classOf.find(use.getOwner());
      if (user == classOf.end() || updates.contains(user->second) ||
          user->second == i)
        continue;
      const TensorFactors &dims =
          program.ops[user->second].rule.operands[use.getOperandNumber()];
      if (llvm::any_of(dims, [](const DimensionFactors &dim) {
            return dim.size() != 1;
          }))
        continue;
      followed[i] = {user->second, use.getOperandNumber()};
      groups.unionSets(i, user->second);
      break;
    }
  }
}

/// Returns the name of a factor among the keys of the class's group. It begins
/// with '#' if a plan cannot name the factor.
std::string ProgramReader::getKey(unsigned index, unsigned factor) const {
  const OpClass &made = program.ops[index];
  if (isSayable(made, factor))
    return made.rule.factors[factor].name;
  if (updates.contains(index))
    return "#" + std::to_string(factor);
  if (auto leader = followed.find(index); leader != followed.end()) {
    auto [user, operand] = leader->second;
    return getKey(user,
                  program.ops[user].rule.operands[operand][factor].front());
  }
  return "#" + std::to_string(index) + "." + std::to_string(factor);
}

void ProgramReader::makeGroups() {
  DenseMap<unsigned, unsigned> groupOfLeader;
  SmallVector<std::map<std::string, unsigned>> keyOf;
  for (auto [i, made] : llvm::enumerate(program.ops)) {
    auto [known, isNew] = groupOfLeader.try_emplace(groups.getLeaderValue(i),
                                                    program.groups.size());
    if (isNew) {
      program.groups.emplace_back();
      keyOf.emplace_back();
    }
    made.group = known->second;
    Group &group = program.groups[made.group];
    group.classes.push_back(i);
    group.isUpdate |= updates.contains(i);
    bool isNamed = false;
    for (unsigned f = 0; f < made.rule.factors.size(); ++f) {
      std::string key = getKey(i, f);
      isNamed |= isSayable(made, f);
      auto [entry, isFirst] =
          keyOf[made.group].try_emplace(key, group.keys.size());
      if (isFirst)
        group.keys.push_back(key.front() == '#' ? "" : key);
      made.keys.push_back(entry->second);
    }
    if (isNamed)
      for (Operation *op : made.ops)
        if (!llvm::is_contained(group.names, getOpName(op)))
          group.names.push_back(getOpName(op).str());
  }
}

FailureOr<Program> ProgramReader::read() {
  if (failed(collectOps()))
    return failure();
  makeClasses();
  addVariables();
  uniteNames();
  uniteUpdates();
  uniteScalarSums();
  findFollowers();
  makeGroups();
  if (failed(addCells()) || failed(addFlows()))
    return failure();
  return std::move(program);
}

FailureOr<Program> Program::create(ModuleOp module,
                                   const ProgramOptions &options) {
  return ProgramReader(module, options).read();
}
