//===- NameOperators.cpp - heddle-name-operators --------------------------===//
//
// Sweeps over a function twice. The backward sweep finds whether data flows to
// operators or only into variables. The forward sweep derives names and kinds.
// The pass's description has the rules.
//
//===----------------------------------------------------------------------===//

#include "dialects/Comm/Comm.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {
#define GEN_PASS_DEF_NAMEOPERATORSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

/// Where the results of an op flow.
struct Uses {
  bool operators = false; ///< an operator computes new data from them
  bool variables = false; ///< stored, directly or through other ops
};

/// The operators that a value serves, and how the name reached the value.
struct Source {
  ServesAttr serves;
  /// The value depends on no tensor of more than one element.
  bool isScalar = false;
  /// The name is the name of an operator or variable.
  bool hasName = false;
  /// Number of ops with several operands between the value and the op that gave
  /// the name.
  unsigned distance = 0;
  /// The stack or concat op whose parts the value holds, perhaps after copies
  /// and collectives. Null for none.
  Operation *join = nullptr;
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
  /// Returns the sources of the operands, each once. Constants and scalars have
  /// none.
  SmallVector<const Source *> getSources(Operation *op);
  Source combine(Operation *op, ArrayRef<const Source *> sources);
  /// Gives each slice of an unstack the source of the same slice of the stack.
  void nameSlices(UnstackOp unstack);
  /// Gives a slice that is one part of a concat the source of that part.
  void namePart(tensor::ExtractSliceOp slice);
  /// Returns a name for an op that no other name reaches.
  StringAttr getOwnName(Operation *op);
  VariableOp getVariable(FlatSymbolRefAttr symbol) {
    return symbols.lookupNearestSymbolFrom<VariableOp>(function, symbol);
  }

  func::FuncOp function;
  Block &body;
  SymbolTableCollection &symbols;
  llvm::DenseMap<Operation *, Uses> usesOf;
  llvm::DenseMap<Value, Source> sourceOf;
  /// For each kind of op, the number of ops with a name of their own.
  llvm::DenseMap<OperationName, unsigned> ownNames;
};

} // namespace

//===----------------------------------------------------------------------===//
// Backwards: where data flows
//===----------------------------------------------------------------------===//

/// Returns whether the op sums over a loop of the operand, as a product does.
/// Then its results are new data, not a sum or copy of the operand. An op
/// without a rule counts as one that sums.
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

/// Keeps only the sources for which `isKept` holds. If it holds for none, keeps
/// all.
template <typename Predicate>
static void prefer(SmallVectorImpl<const Source *> &sources, Predicate isKept) {
  if (llvm::any_of(sources, isKept))
    llvm::erase_if(sources, [&](const Source *s) { return !isKept(s); });
}

/// Returns the kind of data that an op without an operator's name computes.
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

/// Returns the operators that a stack of the sources serves, with the first of
/// the sources' kinds in the order of DataKind.
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
  if (isa<StackOp, tensor::ConcatOp>(op)) {
    prefer(sources, [](const Source *s) { return s->hasName; });
    result.serves = getServesOfStack(sources);
    result.hasName = sources.front()->hasName;
    result.join = op;
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
    result.join = sources.front()->join;
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
  auto stack =
      dyn_cast_if_present<StackOp>(sourceOf.lookup(unstack.getX()).join);
  if (!stack || stack.getSlices().size() != unstack.getSlices().size())
    return;
  for (auto [slice, part] : llvm::zip(unstack.getSlices(), stack.getSlices()))
    if (auto known = sourceOf.find(part); known != sourceOf.end()) {
      Source source = known->second;
      sourceOf[slice] = source;
    }
}

void Namer::namePart(tensor::ExtractSliceOp slice) {
  auto concat = dyn_cast_if_present<tensor::ConcatOp>(
      sourceOf.lookup(slice.getSource()).join);
  if (!concat)
    return;
  // The sliced dimension. A collective or a reshape may have moved it, but its
  // size is the same.
  ArrayRef<int64_t> whole = slice.getSourceType().getShape(),
                    sizes = slice.getStaticSizes();
  std::optional<size_t> cut;
  for (size_t dim = 0; dim < whole.size(); ++dim)
    if (sizes[dim] != whole[dim]) {
      if (cut)
        return;
      cut = dim;
    }
  int64_t dim = concat.getDim();
  if (!cut || whole[*cut] != concat.getResultType().getDimSize(dim))
    return;
  int64_t offset = 0;
  for (Value part : concat.getInputs()) {
    int64_t size = cast<RankedTensorType>(part.getType()).getDimSize(dim);
    if (offset == slice.getStaticOffsets()[*cut] && size == sizes[*cut])
      if (auto known = sourceOf.find(part); known != sourceOf.end()) {
        Source source = known->second;
        slice->setLoc(withServes(slice.getLoc(), source.serves));
        sourceOf[slice.getResult()] = source;
        return;
      }
    offset += size;
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
    // Data begins here: no operand has a source.
    source.serves =
        ServesAttr::get(context, DataKind::Activation, getOwnName(op));
    source.isScalar = llvm::all_of(op->getResultTypes(), isScalar);
  }
  op->setLoc(withServes(op->getLoc(), source.serves));
  // A value without operands (memory to fill, a place in the mesh) gives no
  // name to its users.
  if (!source.hasName && sources.empty())
    return;
  for (Value result : op->getResults())
    sourceOf[result] = source;
  if (auto unstack = dyn_cast<UnstackOp>(op))
    nameSlices(unstack);
  else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    namePart(slice);
}

void Namer::run() {
  MLIRContext *context = function.getContext();
  for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
    auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttrName);
    if (!name || name.empty())
      name = StringAttr::get(context,
                             function.getSymName() + ".argument" + Twine(i));
    // `hasName` stays false, because this is a name of data, and the name of an
    // operator is preferred.
    sourceOf[argument] = {ServesAttr::get(context, DataKind::Activation, name),
                          isScalar(argument.getType())};
  }
  for (Operation &op : llvm::reverse(body))
    usesOf[&op] = findUses(&op);
  for (Operation &op : body) {
    name(&op);
    // The collective in the body of a comm.start serves what the start does.
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
