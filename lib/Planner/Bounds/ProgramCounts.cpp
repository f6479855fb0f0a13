//===- ProgramCounts.cpp - Work and bytes of a global program -------------===//

#include "ProgramCounts.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

bool heddle::isTensorRole(FactorRole role) {
  return role == FactorRole::Features || role == FactorRole::Groups ||
         role == FactorRole::GroupMembers || role == FactorRole::Vocabulary;
}

namespace {

class Counter {
public:
  Counter(ModuleOp module, const ClusterDevice &device)
      : module(module), device(device) {}

  ProgramCounts run();

private:
  llvm::StringSet<> findWeights();
  void countVariables();
  void findForwardPass(func::FuncOp function);
  void findBeforeAttention(func::FuncOp function);
  void countMicroBatch(func::FuncOp function);
  void countUpdate(func::FuncOp function);
  void countSums(func::FuncOp function);
  void countRepeated(WorkOpInterface op, double seconds);
  void countKept(Value value);
  void countReadTwice(func::FuncOp function);
  void countHead(func::FuncOp function);
  void countLargest(func::FuncOp function);
  void countResults(func::FuncOp function);
  double getProductSeconds(Operation *op) const;

  ModuleOp module;
  const ClusterDevice &device;
  ProgramCounts counts;
  /// The ops on which the loss depends.
  llvm::DenseSet<Operation *> forward;
  /// The ops on which an operand of an attention depends, up to the products
  /// before it, with these.
  llvm::DenseSet<Operation *> beforeAttention;
};

} // namespace

/// Returns the load whose value reaches `value` through ops that keep its shape
/// (casts). Null if there is none.
static LoadOp getLoad(Value value) {
  Type shape = value.getType();
  Operation *op = value.getDefiningOp();
  while (op && !isa<LoadOp>(op) && op->getNumOperands() == 1 &&
         succeeded(verifyCompatibleShape(op->getOperand(0).getType(), shape)))
    op = op->getOperand(0).getDefiningOp();
  return dyn_cast_or_null<LoadOp>(op);
}

llvm::StringSet<> Counter::findWeights() {
  llvm::StringSet<> weights;
  module.walk([&](ShardingRuleOpInterface op) {
    ShardingRule rule = op.getShardingRule();
    std::optional<unsigned> sequence = rule.getFactor(FactorRole::Sequence);
    if (!sequence)
      return;
    for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands))
      if (!ShardingRule::runsOver(factors, *sequence))
        if (LoadOp load = getLoad(operand))
          weights.insert(load.getVariable());
  });
  return weights;
}

void Counter::countVariables() {
  llvm::StringSet<> weights = findWeights();
  for (auto variable : module.getOps<VariableOp>()) {
    auto bytes = double(getBytes(variable.getTensorType()));
    switch (variable.getRole()) {
    case VariableRole::Parameter:
    case VariableRole::Buffer:
      counts.parameters += bytes;
      counts.weights += weights.contains(variable.getSymName()) ? bytes : 0;
      break;
    case VariableRole::OptimizerState:
      counts.optimizerState += bytes;
      break;
    case VariableRole::Gradient:
      counts.gradients += bytes;
      counts.largestOfParameters = std::max(counts.largestOfParameters, bytes);
      break;
    default:
      break;
    }
  }
}

void Counter::findForwardPass(func::FuncOp function) {
  SmallVector<Operation *> worklist;
  auto push = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && forward.insert(op).second)
      worklist.push_back(op);
  };
  SymbolTable symbols(module);
  function.walk([&](StoreOp store) {
    auto variable = symbols.lookup<VariableOp>(store.getVariable());
    if (variable && variable.getRole() == VariableRole::Loss)
      push(store.getValue());
  });
  while (!worklist.empty())
    for (Value operand : worklist.pop_back_val()->getOperands())
      push(operand);
}

/// Returns the seconds of a product at the device's rate. Returns 0 for an op
/// that is no product because it sums over no loop of its own.
double Counter::getProductSeconds(Operation *op) const {
  auto work = dyn_cast<WorkOpInterface>(op);
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!work || !ruled || op->getNumOperands() < 2)
    return 0;
  ShardingRule rule = ruled.getShardingRule();
  bool sums = rule.meet.has_value();
  for (auto [i, factor] : llvm::enumerate(rule.factors)) {
    unsigned readers = 0;
    for (const TensorFactors &operand : rule.operands)
      readers += ShardingRule::runsOver(operand, i);
    sums |= factor.kind == FactorKind::Sum && readers >= 2;
  }
  auto operand = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!sums || !operand)
    return 0;
  std::optional<double> rate = getProductRate(operand.getElementType(), device);
  return rate ? double(work.getWork().flops) / *rate : 0;
}

/// Returns whether the op is attention: its result meets each element of one
/// sequence with each element of another.
static bool isAttention(Operation *op) {
  auto ruled = dyn_cast_or_null<ShardingRuleOpInterface>(op);
  return ruled && ruled.getShardingRule().meet;
}

void Counter::findBeforeAttention(func::FuncOp function) {
  SmallVector<Operation *> worklist;
  auto push = [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *before = operand.getDefiningOp())
        if (beforeAttention.insert(before).second)
          worklist.push_back(before);
  };
  function.walk([&](Operation *op) {
    if (forward.contains(op) && isAttention(op))
      push(op);
  });
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    if (getProductSeconds(op) == 0)
      push(op);
  }
}

/// Returns whether the op is attention with a causal mask. No interface tells
/// masks, because only these two ops have one.
static bool isCausal(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attention.getCausal();
  auto gradient = dyn_cast<AttentionGradOp>(op);
  return gradient && gradient.getCausal();
}

/// Counts a product of the forward pass, if recomputation repeats it.
void Counter::countRepeated(WorkOpInterface op, double seconds) {
  ShardingRule rule =
      cast<ShardingRuleOpInterface>(op.getOperation()).getShardingRule();
  for (const Factor &factor : rule.factors)
    if (factor.kind == FactorKind::Sum && isTensorRole(factor.role))
      return;
  counts.repeatedProducts += seconds;
  counts.repeatedAttention += rule.meet ? seconds : 0;
  if (!rule.meet && beforeAttention.contains(op))
    counts.repeatedBefore += seconds;
}

/// Returns whether tensor parallelism splits no dimension of an op's operand.
static bool isWhole(Operation *op, unsigned operand) {
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  for (auto [i, factor] : llvm::enumerate(rule.factors))
    if (isTensorRole(factor.role) &&
        ShardingRule::runsOver(rule.operands[operand], i))
      return false;
  return true;
}

/// Returns whether kernels repeat an op where its result is read, because its
/// operands have no more bytes than the result: a cast to a wider type, a mask.
static bool isCheap(Operation *op) {
  if (!OpTrait::hasElementwiseMappableTraits(op))
    return false;
  int64_t read = 0;
  for (Value operand : op->getOperands())
    read += getBytes(operand.getType());
  return read <= getBytes(op->getResult(0).getType());
}

/// Counts a result of the forward pass, if the backward pass reads it.
void Counter::countKept(Value value) {
  bool isKept = false, isForProduct = false, isWholeForProduct = false,
       isOfAttention = false;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    isOfAttention |= isAttention(user);
    if (forward.contains(user) || isa<StoreOp>(user) ||
        user->hasTrait<OpTrait::IsTerminator>())
      continue;
    isKept = true;
    if (getProductSeconds(user) == 0)
      continue;
    isForProduct = true;
    isWholeForProduct |= isWhole(user, use.getOperandNumber());
  }
  if (!isKept)
    return;
  auto bytes = double(getBytes(value.getType()));
  counts.keptBytes += bytes;
  if (isWholeForProduct)
    counts.keptWhole += bytes;
  else if (isForProduct || !isCheap(value.getDefiningOp())) {
    counts.keptInParts += bytes;
    if (isOfAttention || isAttention(value.getDefiningOp()))
      counts.keptOfAttention += bytes;
  }
}

/// Counts the parameters that products of both passes read.
void Counter::countReadTwice(func::FuncOp function) {
  llvm::DenseMap<StringRef, std::pair<double, unsigned>> read;
  function.walk([&](Operation *op) {
    if (getProductSeconds(op) == 0)
      return;
    for (Value operand : op->getOperands())
      if (LoadOp load = getLoad(operand)) {
        auto &[bytes, passes] = read[load.getVariable()];
        bytes = double(getBytes(load.getType()));
        passes |= forward.contains(op) ? 1 : 2;
      }
  });
  for (const auto &[variable, entry] : read)
    counts.readTwice += entry.second == 3 ? entry.first : 0;
}

/// Returns whether an operator's name has a number, as those of layers have.
static bool hasNumber(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  int64_t number;
  return llvm::any_of(
      parts, [&](StringRef part) { return !part.getAsInteger(10, number); });
}

/// Counts the products of operators behind the last layer, and the parameters
/// that they share.
void Counter::countHead(func::FuncOp function) {
  llvm::StringSet<> head;
  function.walk([&](Operation *op) {
    if (!forward.contains(op) || getProductSeconds(op) == 0)
      return;
    if (hasNumber(getOpName(op)))
      head.clear();
    else
      head.insert(getOpName(op));
  });
  function.walk([&](Operation *op) {
    if (head.contains(getOpName(op)))
      counts.headProducts += getProductSeconds(op);
  });
  // Whether products of the head read a variable, and whether others do.
  llvm::DenseMap<StringRef, std::array<bool, 2>> readers;
  function.walk([&](Operation *op) {
    if (!forward.contains(op) || !isa<ShardingRuleOpInterface>(op))
      return;
    for (Value operand : op->getOperands())
      if (LoadOp load = getLoad(operand))
        readers[load.getVariable()][head.contains(getOpName(op))] = true;
  });
  for (auto variable : module.getOps<VariableOp>())
    if (auto own = readers.find(variable.getSymName());
        own != readers.end() && own->second[0] && own->second[1])
      counts.sharedTables += double(getBytes(variable.getTensorType()));
}

/// Finds the largest result of the backward pass that has a part for each row.
/// A program without a training step has no passes, so that all ops count.
void Counter::countLargest(func::FuncOp function) {
  function.walk([&](Operation *op) {
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    if (!ruled || forward.contains(op))
      return;
    ShardingRule rule = ruled.getShardingRule();
    std::optional<unsigned> batch = rule.getFactor(FactorRole::Batch);
    if (!batch)
      return;
    for (auto [result, factors] : llvm::zip(op->getResults(), rule.results))
      if (ShardingRule::runsOver(factors, *batch))
        counts.largestGradient = std::max(counts.largestGradient,
                                          double(getBytes(result.getType())));
  });
}

void Counter::countResults(func::FuncOp function) {
  for (Type type : function.getResultTypes())
    counts.results += double(getBytes(type));
}

void Counter::countMicroBatch(func::FuncOp function) {
  function.walk([&](Operation *op) {
    bool isForward = forward.contains(op);
    if (auto work = dyn_cast<WorkOpInterface>(op)) {
      double seconds = getProductSeconds(work);
      counts.products += seconds;
      counts.numProducts += seconds > 0;
      counts.causalAttention += isCausal(op) ? seconds : 0;
      counts.forwardProducts += isForward ? seconds : 0;
      if (isForward && seconds > 0)
        countRepeated(work, seconds);
      if (seconds == 0) {
        Work bytes = work.getWork();
        counts.otherBytes += double(bytes.bytesRead + bytes.bytesWritten);
      }
    }
    if (isForward && !isa<LoadOp>(op) &&
        !(op->getNumResults() == 1 && getLoad(op->getResult(0))))
      for (Value result : op->getResults())
        countKept(result);
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    if (!ruled || !isForward)
      return;
    ShardingRule rule = ruled.getShardingRule();
    if (!rule.meet)
      return;
    auto [queries, keys] = *rule.meet;
    for (auto [operand, factors] :
         llvm::zip(op->getOperands(), rule.operands)) {
      bool hasQueries = ShardingRule::runsOver(factors, queries);
      bool hasKeys = ShardingRule::runsOver(factors, keys);
      auto bytes = double(getBytes(operand.getType()));
      counts.keyBytes += hasKeys && !hasQueries ? bytes : 0;
      counts.numKeys += hasKeys && !hasQueries;
      counts.queryBytes += hasQueries && !hasKeys ? bytes : 0;
    }
    counts.queryBytes += double(getBytes(op->getResult(0).getType()));
  });
  countSums(function);
  countReadTwice(function);
  countHead(function);
  countLargest(function);
}

/// A value is a sum over devices if its op sums over a split factor, or if the
/// op passes such sums on. A sum is exchanged where an op reads it that cannot
/// pass it on, or earlier, where the values that it comes from have fewer bytes
/// (before a cast to a wider type).
void Counter::countSums(func::FuncOp function) {
  using Values = llvm::SmallSetVector<Value, 2>;
  // The values to exchange for each sum, in the cheapest way.
  llvm::DenseMap<Value, Values> cheapest;
  llvm::DenseSet<Value> exchanged;
  auto countBytes = [](ArrayRef<Value> values) {
    int64_t bytes = 0;
    for (Value value : values)
      bytes += getBytes(value.getType());
    return bytes;
  };
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    bool isSum = false, passesOn = false;
    Values earlier;
    if (ruled && !op->getOperands().empty()) {
      ShardingRule rule = ruled.getShardingRule();
      for (const Factor &factor : rule.factors)
        isSum |= factor.kind == FactorKind::Sum && isTensorRole(factor.role);
      for (const LinearGroup &group : rule.linear) {
        if (!rule.defersPartialSums || group.operands.empty() ||
            !llvm::all_of(group.operands, [&](unsigned operand) {
              return operand < op->getNumOperands() &&
                     cheapest.contains(op->getOperand(operand));
            }))
          continue;
        passesOn = true;
        for (unsigned operand : group.operands) {
          const Values &values = cheapest[op->getOperand(operand)];
          earlier.insert(values.begin(), values.end());
        }
      }
    }
    if (isSum || passesOn)
      for (Value result : op->getResults()) {
        bool isCheaper =
            passesOn && !isSum &&
            countBytes(earlier.getArrayRef()) <= getBytes(result.getType());
        Values own;
        own.insert(result);
        cheapest[result] = isCheaper ? earlier : own;
      }
    if (passesOn)
      return;
    for (Value operand : op->getOperands()) {
      auto sum = cheapest.find(operand);
      if (sum == cheapest.end())
        continue;
      for (Value value : sum->second) {
        if (!exchanged.insert(value).second)
          continue;
        counts.tensorSums += double(getBytes(value.getType()));
        counts.numTensorSums += 1;
      }
    }
  });
}

void Counter::countUpdate(func::FuncOp function) {
  function.walk([&](Operation *op) {
    // The update of each parameter is a chain of ops that becomes one kernel.
    // The kernel reads and writes each variable once.
    if (auto load = dyn_cast<LoadOp>(op))
      counts.updateBytes += double(getBytes(load.getType()));
    else if (auto store = dyn_cast<StoreOp>(op))
      counts.updateBytes += double(getBytes(store.getValue().getType()));
  });
}

ProgramCounts Counter::run() {
  countVariables();
  auto find = [&](ProgramRole role) -> func::FuncOp {
    for (auto function : module.getOps<func::FuncOp>())
      if (auto own = function->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
          own && own.getValue() == role)
        return function;
    return {};
  };
  func::FuncOp accumulate = find(ProgramRole::Accumulate);
  func::FuncOp update = find(ProgramRole::Update);
  if (accumulate && update) {
    findForwardPass(accumulate);
    findBeforeAttention(accumulate);
    countMicroBatch(accumulate);
    countUpdate(update);
    if (func::FuncOp evaluate = find(ProgramRole::Evaluate))
      countResults(evaluate);
    return counts;
  }
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic()) {
      countMicroBatch(function);
      countResults(function);
    }
  return counts;
}

ProgramCounts heddle::countProgram(ModuleOp module,
                                   const ClusterDevice &device) {
  return Counter(module, device).run();
}
