//===- ResolveOperators.cpp - A plan's "operators" ------------------------===//

#include "PlanResolver.h"
#include "dialects/Heddle/HeddleDialect.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

void PlanResolver::collectOperators() {
  module.walk([&](ShardingRuleOpInterface op) {
    StringRef name = getOpName(op);
    if (name.empty())
      return;
    ShardingRule rule = getRule(op);
    auto [known, isNew] = factorsOf.insert({name, {}});
    if (isNew)
      names.push_back(name.str());
    for (const Factor &factor : rule.factors)
      if (!factor.name.empty())
        known->second.insert(StringRef(factor.name).copy(strings));
    unsigned count = rule.factors.size();
    result.ops.push_back({op, std::move(rule), FactorAxes(count),
                          SmallVector<bool>(count, false)});
  });
}

std::optional<llvm::SetVector<StringRef>>
PlanResolver::findFactors(StringRef section, StringRef glob, PlanPosition at) {
  llvm::SetVector<StringRef> factors;
  bool matches = false;
  for (auto &[name, own] : factorsOf)
    if (matchesGlob(glob, name)) {
      matches = true;
      factors.insert(own.begin(), own.end());
    }
  if (matches)
    return factors;
  std::string message = "no operator has such a name";
  if (StringRef nearest = findNearestName(glob, names); !nearest.empty())
    message += "; the nearest is \"" + nearest.str() + "\"";
  PlanProblem &problem = reportUnknown(PlanRule::Operator, at,
                                       getPlanPath(section, glob), message);
  if (auto model = module->getAttrOfType<StringAttr>(kModelAttrName)) {
    problem.note = "the model is \"" + model.str() + "\" with " +
                   std::to_string(names.size()) +
                   " named operators; is the plan for another model?";
    problem.place = module.getLoc();
  }
  return std::nullopt;
}

bool PlanResolver::expectFactor(StringRef section, StringRef glob,
                                StringRef factor, PlanPosition at,
                                const llvm::SetVector<StringRef> &factors) {
  if (factors.contains(factor))
    return true;
  report(PlanRule::Factor, at, getPlanPath(section, glob, factor),
         factors.empty() ? "these operators have no factors of a name: they "
                           "follow their neighbours, or the pin of one"
                         : "expected a factor of these operators (" +
                               llvm::join(factors, ", ") + "), got \"" +
                               factor.str() + "\"");
  return false;
}

PlanProblem &PlanResolver::reportRival(PlanPosition at, std::string path,
                                       StringRef rival, StringRef name) {
  return report(PlanRule::Rival, at, std::move(path),
                "\"" + rival + "\" is as specific and says otherwise of \"" +
                    name + "\"",
                name);
}

/// Returns the degrees nearest to `wanted` by which the factor can be split: "2
/// and 4", or "1" if it must stay whole.
static std::string legalDegrees(const Factor &factor, int64_t wanted) {
  if (factor.kind == FactorKind::Replicate)
    return "1";
  int64_t below = 1, above = factor.size;
  for (int64_t degree = 1; degree <= factor.size; ++degree)
    if (factor.size % degree == 0) {
      if (degree < wanted) {
        below = degree;
      } else if (degree > wanted) {
        above = degree;
        break;
      }
    }
  return std::to_string(below) + " and " + std::to_string(above);
}

/// Returns whether a factor's axes divide every dimension that it is part of.
/// It is false only for factors that make isRepresentable() false for the op.
static bool isWhereItDivides(const PlannedOp &planned, unsigned factor,
                             MeshAttr mesh) {
  auto divides = [&](const DimensionFactors &dim) {
    if (dim.size() < 2)
      return true; // padded
    for (unsigned part : dim) {
      int64_t parts = mesh.getSize(planned.axes[part]);
      int64_t size = planned.rule.factors[part].size;
      if (part == factor)
        return parts <= 1 || size % parts == 0;
      if (parts != size)
        break; // its parts have several elements
    }
    return !llvm::is_contained(dim, factor);
  };
  auto dividesAll = [&](const TensorFactors &tensor) {
    return llvm::all_of(tensor, divides);
  };
  return llvm::all_of(planned.rule.operands, dividesAll) &&
         llvm::all_of(planned.rule.results, dividesAll);
}

void PlanResolver::checkDivides(const PlannedOp &planned, unsigned factor,
                                const FactorEntry &entry,
                                const FactorAssignment &assignment) {
  const Factor &what = planned.rule.factors[factor];
  const Axes &axes = planned.axes[factor];
  bool whole = what.kind == FactorKind::Replicate;
  if (axes.empty() ||
      (!whole && isWhereItDivides(planned, factor, result.mesh)))
    return;
  std::string text;
  llvm::raw_string_ostream message(text);
  message << "factor " << assignment.key << " of \"" << getOpName(planned.op)
          << "\" (" << planned.op->getName() << "), of size " << what.size
          << ", cannot be split over ";
  llvm::interleaveComma(axes, message, [&](StringAttr axis) {
    message << axis << " (" << result.mesh.getAxisSize(axis) << ")";
  });
  message << (whole ? ": the op needs it whole" : ": it does not divide")
          << "; the nearest legal degrees are "
          << legalDegrees(what, result.mesh.getSize(axes));
  PlanProblem &problem =
      report(PlanRule::Divides, assignment.position,
             getPlanPath("operators", entry.glob, assignment.key),
             message.str(), getOpName(planned.op));
  // The message names the op already. A note helps only if the op has a place
  // in a file.
  if (problem.others == 0 &&
      planned.op->getLoc()->findInstanceOf<FileLineColLoc>()) {
    problem.note = "the operator";
    problem.place = planned.op->getLoc();
  }
}

void PlanResolver::resolveOperator(PlannedOp &planned) {
  StringRef name = getOpName(planned.op);
  struct Source {
    const FactorEntry *entry = nullptr;
    const FactorAssignment *assignment = nullptr;
  };
  SmallVector<Source> sources(planned.axes.size());
  for (auto [i, factor] : llvm::enumerate(planned.rule.factors)) {
    if (factor.name.empty())
      continue;
    const FactorEntry *rival = nullptr;
    const FactorEntry *entry =
        findPlanEntry(plan.operators, name, factor.name, &rival);
    if (!entry)
      continue;
    const FactorAssignment *assignment = entry->find(factor.name);
    if (rival)
      reportRival(assignment->position,
                  getPlanPath("operators", entry->glob, factor.name),
                  rival->glob, name);
    planned.axes[i] = toAxes(assignment->axes);
    planned.pinned[i] = true;
    sources[i] = {entry, assignment};
  }
  if (std::optional<SharedAxis> shared =
          findSharedAxis(planned.rule, planned.axes)) {
    auto [entry, assignment] = sources[shared->second];
    report(PlanRule::SharedAxis, assignment->position,
           getPlanPath("operators", entry->glob, assignment->key),
           "expected \"" + shared->axis.getValue() + "\" for one factor of \"" +
               name + "\", got it for " + assignment->key + " and for " +
               planned.rule.factors[shared->first].name,
           name);
    return;
  }
  for (auto [i, source] : llvm::enumerate(sources))
    if (source.entry)
      checkDivides(planned, i, *source.entry, *source.assignment);
}

void PlanResolver::resolveOperators() {
  for (const FactorEntry &entry : plan.operators) {
    auto factors = findFactors("operators", entry.glob, entry.position);
    if (!factors)
      continue;
    for (const FactorAssignment &assignment : entry.assignments)
      expectFactor("operators", entry.glob, assignment.key, assignment.position,
                   *factors);
  }
  for (PlannedOp &planned : result.ops)
    resolveOperator(planned);
}
