//===- NameOperators.cpp - heddle-name-operators --------------------------===//
//
// Two sweeps over a function: backwards, whether data flows to operators or
// only into variables; forwards, names and kinds. The pass's description has
// the rules.
//
//===----------------------------------------------------------------------===//

#include "dialects/Comm/Comm.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {
#define GEN_PASS_DEF_NAMEOPERATORSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

/// Where the results of an op flow to.
struct Uses {
  bool operators = false; ///< operators that make something new of them
  bool variables = false; ///< stores, at once or through other ops
};

/// The operators that a value serves, and how they became known.
struct Source {
  ServesAttr serves;
  /// No tensor of more than one element went into it.
  bool isScalar = false;
  /// An operator or variable gave the name.
  bool hasName = false;
  /// How many ops of several operands lie between it and the named one.
  unsigned distance = 0;
  /// The stack whose operands it holds side by side, if it is one.
  StackOp stack = {};
};

class Namer {
public:
  Namer(func::FuncOp function, SymbolTableCollection &symbols)
      : function(function), body(function.getBody().front()), symbols(symbols) {
  }

  void run();

private:
  Uses findUses(Operation *op) const;
  void name(Operation *op);
  /// The operands' sources, each once. Constants and numbers have none.
  SmallVector<const Source *> getSources(Operation *op);
  Source combine(Operation *op, ArrayRef<const Source *> sources);
  /// What the slices of an unstack hold, if a stack was made of them.
  void nameSlices(UnstackOp unstack);
  /// A name for an op that no other name reaches.
  StringAttr getOwnName(Operation *op);
  VariableOp getVariable(FlatSymbolRefAttr symbol) {
    return symbols.lookupNearestSymbolFrom<VariableOp>(function, symbol);
  }

  func::FuncOp function;
  Block &body;
  SymbolTableCollection &symbols;
  llvm::DenseMap<Operation *, Uses> usesOf;
  llvm::DenseMap<Value, Source> sourceOf;
  /// How many ops of each operation have a name of their own.
  llvm::DenseMap<OperationName, unsigned> ownNames;
};

} // namespace

//===----------------------------------------------------------------------===//
// Backwards: where data flows to
//===----------------------------------------------------------------------===//

/// Whether the op sums over a loop of the operand: then its results are no sum
/// or copy of the operand. An op without a rule is taken to do so.
static bool sumsOver(Operation *op, unsigned operand) {
  auto shardable = dyn_cast<ShardingRuleOpInterface>(op);
  if (!shardable)
    return true;
  ShardingRule rule = shardable.getShardingRule();
  if (operand >= rule.operands.size())
    return true;
  for (const DimensionFactors &factors : rule.operands[operand])
    for (unsigned factor : factors)
      if (llvm::none_of(rule.results, [&](const TensorFactors &result) {
            return ShardingRule::runsOver(result, factor);
          }))
        return true;
  return false;
}

Uses Namer::findUses(Operation *op) const {
  Uses uses;
  for (OpOperand &use : op->getUses()) {
    Operation *user = body.findAncestorOpInBlock(*use.getOwner());
    if (isa<StoreOp>(user)) {
      uses.variables = true;
      continue;
    }
    if (isa<func::ReturnOp>(user))
      continue;
    Uses further = usesOf.lookup(user);
    uses.variables |= further.variables;
    uses.operators |= further.operators;
    bool isOperator = isa<WhileOp>(user) || !getOpName(user).empty();
    if (isOperator && !uses.operators)
      uses.operators = !further.variables || user != use.getOwner() ||
                       sumsOver(user, use.getOperandNumber());
  }
  return uses;
}

//===----------------------------------------------------------------------===//
// Forwards: names and kinds
//===----------------------------------------------------------------------===//

static bool isScalar(Type type) {
  auto tensor = dyn_cast<ShapedType>(type);
  return !tensor || (tensor.hasStaticShape() && tensor.getNumElements() <= 1);
}

SmallVector<const Source *> Namer::getSources(Operation *op) {
  llvm::SmallSetVector<const Source *, 4> sources;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      if (operand.getType().isIntOrIndexOrFloat())
        continue;
      if (auto known = sourceOf.find(operand); known != sourceOf.end())
        sources.insert(&known->second);
    }
  });
  return sources.takeVector();
}

/// Keeps those for which `isKept` holds, unless it holds for none.
template <typename Predicate>
static void prefer(SmallVectorImpl<const Source *> &sources, Predicate isKept) {
  if (llvm::any_of(sources, isKept))
    llvm::erase_if(sources, [&](const Source *s) { return !isKept(s); });
}

/// The kind of what an op of no operator makes of its operands.
static DataKind combineKinds(ArrayRef<const Source *> sources, Uses uses) {
  if (uses.operators || !uses.variables) {
    DataKind kind = sources.front()->serves.getKind();
    bool isShared = llvm::all_of(sources, [&](const Source *source) {
      return source->serves.getKind() == kind;
    });
    return isShared ? kind : DataKind::Activation;
  }
  auto has = [&](DataKind kind) {
    return llvm::any_of(sources, [&](const Source *source) {
      return source->serves.getKind() == kind;
    });
  };
  if (has(DataKind::Parameter))
    return DataKind::Parameter;
  return has(DataKind::State) ? DataKind::State : DataKind::Gradient;
}

StringAttr Namer::getOwnName(Operation *op) {
  for (OpOperand &use : op->getUses())
    if (isa<func::ReturnOp>(use.getOwner()))
      if (auto name = function.getResultAttrOfType<StringAttr>(
              use.getOperandNumber(), kNameAttrName);
          name && !name.empty())
        return name;
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>();
      name && !name.getName().empty())
    return name.getName();
  return StringAttr::get(op->getContext(),
                         function.getSymName() + "." +
                             op->getName().getStringRef() + "." +
                             Twine(ownNames[op->getName()]++));
}

/// The operators that a stack of the sources serves, and its kind: the first in
/// the order of kinds.
static ServesAttr getServesOfStack(ArrayRef<const Source *> sources) {
  DataKind kind = DataKind::State;
  SmallVector<ServesAttr> parts;
  for (const Source *source : sources) {
    parts.push_back(source->serves);
    kind = std::min(kind, source->serves.getKind());
  }
  return ServesAttr::getUnion(kind, parts);
}

Source Namer::combine(Operation *op, ArrayRef<const Source *> all) {
  SmallVector<const Source *> sources(all);
  Source result;
  result.isScalar =
      llvm::all_of(op->getResultTypes(), isScalar) ||
      llvm::all_of(sources, [](const Source *s) { return s->isScalar; });
  if (isa<StackOp>(op)) {
    prefer(sources, [](const Source *s) { return s->hasName; });
    result.serves = getServesOfStack(sources);
    result.hasName = sources.front()->hasName;
    result.stack = cast<StackOp>(op);
    return result;
  }
  prefer(sources, [](const Source *s) { return !s->isScalar; });
  bool isMoved =
      sources.size() == 1 || isa<comm::CommDialect>(op->getDialect());
  DataKind kind = combineKinds(sources, usesOf.lookup(op));
  prefer(sources, [](const Source *s) { return s->hasName; });
  prefer(sources, [&](const Source *s) { return s->serves.getKind() == kind; });
  unsigned nearest = UINT_MAX;
  for (const Source *source : sources)
    nearest = std::min(nearest, source->distance);
  llvm::erase_if(sources,
                 [&](const Source *s) { return s->distance > nearest; });
  result.hasName = sources.front()->hasName;
  result.distance = isMoved ? nearest : nearest + 1;
  if (isMoved)
    result.stack = sources.front()->stack;
  if (!result.hasName && !isMoved) {
    result.serves = ServesAttr::get(op->getContext(), kind, getOwnName(op));
    return result;
  }
  result.serves = ServesAttr::getUnion(
      kind,
      llvm::map_to_vector(sources, [](const Source *s) { return s->serves; }));
  return result;
}

void Namer::nameSlices(UnstackOp unstack) {
  StackOp stack = sourceOf.lookup(unstack.getX()).stack;
  if (!stack || stack.getSlices().size() != unstack.getSlices().size())
    return;
  for (auto [slice, part] : llvm::zip(unstack.getSlices(), stack.getSlices()))
    if (auto known = sourceOf.find(part); known != sourceOf.end()) {
      Source source = known->second;
      sourceOf[slice] = source;
    }
}

void Namer::name(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return;
  MLIRContext *context = op->getContext();
  Uses uses = usesOf.lookup(op);
  SmallVector<const Source *> sources = getSources(op);
  Source source;
  FlatSymbolRefAttr accessed;
  if (auto load = dyn_cast<LoadOp>(op))
    accessed = load.getVariableAttr();
  else if (auto store = dyn_cast<StoreOp>(op))
    accessed = store.getVariableAttr();
  VariableOp variable = accessed ? getVariable(accessed) : VariableOp();
  if (auto given = op->getAttrOfType<ServesAttr>(kServesAttrName)) {
    source = {given, llvm::all_of(op->getResultTypes(), isScalar), true, 0};
  } else if (variable) {
    source = {getServes(variable), isScalar(variable.getTensorType()), true, 0};
  } else if (StringRef own = getOpName(op); !own.empty()) {
    DataKind kind = uses.variables && !uses.operators ? DataKind::Gradient
                                                      : DataKind::Activation;
    source = {ServesAttr::get(context, kind, StringAttr::get(context, own)),
              llvm::all_of(op->getResultTypes(), isScalar), true, 0};
  } else if (!sources.empty()) {
    source = combine(op, sources);
  } else {
    // Made of nothing that is known: a beginning.
    source.serves =
        ServesAttr::get(context, DataKind::Activation, getOwnName(op));
    source.isScalar = llvm::all_of(op->getResultTypes(), isScalar);
  }
  op->setLoc(withServes(op->getLoc(), source.serves));
  // What comes from nothing (memory to fill, a place in the mesh) names nobody.
  if (!source.hasName && sources.empty())
    return;
  for (Value result : op->getResults())
    sourceOf[result] = source;
  if (auto unstack = dyn_cast<UnstackOp>(op))
    nameSlices(unstack);
}

void Namer::run() {
  MLIRContext *context = function.getContext();
  for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
    auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttrName);
    if (!name || name.empty())
      name = StringAttr::get(context,
                             function.getSymName() + ".argument" + Twine(i));
    // A name of data: an operator's is better.
    sourceOf[argument] = {ServesAttr::get(context, DataKind::Activation, name),
                          isScalar(argument.getType())};
  }
  for (Operation &op : llvm::reverse(body))
    usesOf[&op] = findUses(&op);
  for (Operation &op : body) {
    name(&op);
    // A collective in flight.
    if (isa<comm::StartOp>(op))
      for (Operation &inner : op.getRegion(0).front())
        inner.setLoc(withServes(inner.getLoc(), getServes(&op)));
  }
}

namespace {
struct NameOperators : heddle::impl::NameOperatorsPassBase<NameOperators> {
  void runOnOperation() override {
    SymbolTableCollection symbols;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(kKernelAttrName) &&
          function.getBody().hasOneBlock())
        Namer(function, symbols).run();
  }
};
} // namespace
