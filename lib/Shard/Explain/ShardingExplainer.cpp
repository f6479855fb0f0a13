//===- ShardingExplainer.cpp - Explains shardings -------------------------===//

#include "ShardingExplainer.h"
#include "heddle/Sharding/ControlFlow.h"

using namespace mlir;
using namespace heddle;
using Element = Propagation::Element;
using Kind = Propagation::OriginKind;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::string heddle::describeOp(Operation *op) {
  if (StringRef name = getOpName(op); !name.empty())
    return ("\"" + name + "\"").str();
  std::string name = ("'" + op->getName().getStringRef() + "'").str();
  if (auto loc = dyn_cast<FileLineColLoc>(op->getLoc()))
    name += " (line " + std::to_string(loc.getLine()) + ")";
  return name;
}

/// Describes the seed of an axis: "argument 0 of @f".
static std::string describe(const Seed &seed) {
  auto getName = [&] {
    return "@" + SymbolTable::getSymbolName(seed.op).str();
  };
  switch (seed.kind) {
  case Seed::Kind::Pin:
    return "the pin of " + describeOp(seed.op);
  case Seed::Kind::Argument:
    return "argument " + std::to_string(seed.number) + " of " + getName();
  case Seed::Kind::Result:
    return "result " + std::to_string(seed.number) + " of " + getName();
  case Seed::Kind::Storage:
    return "the storage of " + getName();
  }
  llvm_unreachable("all kinds are named");
}

static std::string toString(ArrayRef<Axes> dims) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << '[';
  llvm::interleaveComma(dims, stream, [&](const Axes &axes) {
    stream << '{';
    llvm::interleaveComma(axes, stream,
                          [&](StringAttr axis) { stream << axis; });
    stream << '}';
  });
  stream << ']';
  return text;
}

/// Names the element as the origin of the axis.
std::string ShardingExplainer::nameOf(Element element, StringAttr axis) const {
  if (!element.isNode) {
    auto known = seeds.find({element.index, axis});
    return known == seeds.end() ? std::string("a value")
                                : ::describe(known->second);
  }
  const ShardingRule &rule = graph.getRule(element.index);
  for (auto [i, axes] : llvm::enumerate(graph.getFactors(element.index)))
    if (llvm::is_contained(axes, axis))
      return "factor " + getFactorKey(rule, i) + " of " +
             describeOp(graph.getOp(element.index));
  return describeOp(graph.getOp(element.index));
}

ShardingExplainer::Source ShardingExplainer::findSource(Element element,
                                                        StringAttr axis) const {
  // Follows the axis back to an element whose source is known, or to the seed.
  // Then records the source of all elements on the way.
  SmallVector<Element> chain;
  Source source{element, std::nullopt};
  while (true) {
    auto found = sources.find(keyOf(element, axis));
    if (found != sources.end()) {
      source = found->second;
      break;
    }
    Propagation::Origin origin = graph.getOrigin(element, axis);
    if (origin.kind != Kind::Heard) {
      source = {element, std::nullopt};
      break;
    }
    chain.push_back(element);
    element = origin.from;
  }
  for (Element hearer : llvm::reverse(chain)) {
    Propagation::Origin origin = graph.getOrigin(hearer, axis);
    if (origin.from.isNode &&
        graph.getOrigin(origin.from, axis).kind == Kind::Heard)
      source.through = origin.from.index;
    sources[keyOf(hearer, axis)] = source;
  }
  return source;
}

std::string ShardingExplainer::describeOrigin(Element element,
                                              StringAttr axis) const {
  if (!element.isNode && graph.getOrigin(element, axis).kind == Kind::Boundary)
    return "what it is given";
  Source source = findSource(element, axis);
  std::string text = nameOf(source.seed, axis);
  if (source.through)
    if (std::string name = describeOp(graph.getOp(*source.through));
        !StringRef(text).ends_with(name)) // may be the op's pin
      text += " through " + name;
  return text;
}

std::string ShardingExplainer::describe(Element element,
                                        ArrayRef<Axes> dims) const {
  std::string text = "lies " + toString(dims);
  const char *separator = ": ";
  for (const Axes &axes : dims)
    for (StringAttr axis : axes) {
      text += separator + ("\"" + axis.getValue() + "\" from ").str() +
              describeOrigin(element, axis);
      separator = "; ";
    }
  return text;
}

//===----------------------------------------------------------------------===//
// Explanations
//===----------------------------------------------------------------------===//

void ShardingExplainer::explain(func::FuncOp function) const {
  auto explainCell = [&](Value value, InFlightDiagnostic &&remark,
                         const Twine &what) {
    if (std::optional<unsigned> cell = graph.findCell(value))
      remark << what << describe({false, *cell}, graph.getAxes(*cell));
    else
      remark.abandon();
  };
  if (function.isExternal())
    return;
  for (BlockArgument argument : function.getArguments())
    explainCell(argument, emitRemark(argument.getLoc()),
                "argument " + Twine(argument.getArgNumber()) + " ");
  forEachOp(function, [&](Operation *op) {
    for (OpResult result : op->getResults()) {
      std::string what;
      // If an op has no location, its remark names at least its kind.
      if (isa<UnknownLoc>(op->getLoc()))
        what = "in @" + function.getName().str() + ", '" +
               op->getName().getStringRef().str() + "' ";
      if (op->getNumResults() > 1)
        what += "result " + std::to_string(result.getResultNumber()) + " ";
      std::optional<unsigned> node = graph.findNode(op);
      if (!node) {
        explainCell(result, emitRemark(op->getLoc()), what);
        continue;
      }
      if (!isa<RankedTensorType>(result.getType()))
        continue;
      // This is the sharding in which the op makes the value. Uses may want
      // another.
      ShardingAttr sharding =
          getResultSharding(graph.getRule(*node), graph.getFactors(*node),
                            result.getResultNumber(), mesh);
      Element element{true, *node};
      auto remark = emitRemark(op->getLoc());
      remark << what << describe(element, getDimensions(sharding));
      bool isSplit =
          llvm::any_of(getDimensions(sharding),
                       [](const Axes &axes) { return !axes.empty(); });
      const char *separator = isSplit ? "; partial over " : ": partial over ";
      for (StringAttr axis : sharding.getPartialAxes()) {
        remark << separator << axis << " from "
               << describeOrigin(element, axis);
        separator = ", ";
      }
    }
  });
}

//===----------------------------------------------------------------------===//
// Conflicts
//===----------------------------------------------------------------------===//

/// Returns an axis over which a value and its user are in conflict; null if
/// there is none. Either they put the axis on different dimensions, or the user
/// puts it in the place of another axis. Or the value has the axis, and the
/// user needs it for a factor that does not run over the value.
static StringAttr findContested(ArrayRef<Axes> have, ArrayRef<Axes> need,
                                const FactorAxes &factors) {
  for (auto [i, mine] : llvm::enumerate(need))
    for (auto [k, axis] : llvm::enumerate(mine)) {
      if (k < have[i].size() && have[i][k] != axis)
        return axis;
      for (auto [other, axes] : llvm::enumerate(have))
        if (other != i && llvm::is_contained(axes, axis))
          return axis;
    }
  for (auto [mine, theirs] : llvm::zip(need, have))
    for (StringAttr axis : theirs)
      if (!llvm::is_contained(mine, axis) &&
          llvm::any_of(factors, [&](const Axes &axes) {
            return llvm::is_contained(axes, axis);
          }))
        return axis;
  return {};
}

void ShardingExplainer::reportOperand(unsigned node, OpOperand &operand,
                                      ReshardSequences &sequences) const {
  std::optional<unsigned> cell = graph.findCell(operand.get());
  auto type = dyn_cast<RankedTensorType>(operand.get().getType());
  if (!cell || !type || operand.get().getDefiningOp<LoadOp>())
    return;
  Element maker{false, *cell};
  DimensionAxes have = graph.getAxes(*cell);
  if (std::optional<unsigned> definition =
          graph.findNode(operand.get().getDefiningOp())) {
    maker = {true, *definition};
    auto result = cast<OpResult>(operand.get());
    have = getDimensions(getResultSharding(graph.getRule(*definition),
                                           graph.getFactors(*definition),
                                           result.getResultNumber(), mesh));
  }
  DimensionAxes need = getDimensions(
      getOperandSharding(graph.getRule(node), graph.getFactors(node),
                         operand.getOperandNumber(), mesh));
  StringAttr contested = findContested(have, need, graph.getFactors(node));
  if (!contested)
    return;
  CollectiveCost cost = sequences.getCost(type, makeSharding(mesh, have),
                                          makeSharding(mesh, need));
  // `rival` is the axis that has the place of the contested one.
  StringAttr rival = contested;
  for (auto [mine, theirs] : llvm::zip(need, have))
    for (auto [a, b] : llvm::zip(mine, theirs))
      if (a == contested && a != b)
        rival = b;
  emitRemark(graph.getOp(node)->getLoc())
      << "conflict over " << contested << ": operand "
      << operand.getOperandNumber() << " lies " << toString(have)
      << " because of "
      << (seeds.contains({maker.index, rival}) && !maker.isNode
              ? nameOf(maker, rival)
              : describeOrigin(maker, rival))
      << ", and " << describeOrigin({true, node}, contested) << " wants "
      << toString(need) << "; each device sends " << cost.bytes << " bytes";
}

void ShardingExplainer::reportConflicts(ReshardSequences &sequences) const {
  for (unsigned i = 0; i < graph.getNumNodes(); ++i)
    for (OpOperand &operand : graph.getOp(i)->getOpOperands())
      reportOperand(i, operand, sequences);
}
