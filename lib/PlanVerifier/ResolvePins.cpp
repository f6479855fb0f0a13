//===- ResolvePins.cpp - A plan's "pins" and "priorities" -----------------===//

#include "PlanResolver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Pins
//===----------------------------------------------------------------------===//

/// Returns the named factors that run over the op's first result.
static llvm::SetVector<StringRef> getResultFactors(const PlannedOp &planned) {
  llvm::SetVector<StringRef> factors;
  if (!planned.rule.results.empty())
    for (const DimensionFactors &dim : planned.rule.results.front())
      for (unsigned factor : dim)
        if (!planned.rule.factors[factor].name.empty())
          factors.insert(planned.rule.factors[factor].name);
  return factors;
}

/// Returns, for each function, the first op of each name whose result has named
/// factors. Later ops of that name are its gradients.
static std::vector<const PlannedOp *> findForwardOps(ArrayRef<PlannedOp> ops) {
  std::vector<const PlannedOp *> forward;
  DenseSet<std::pair<Operation *, StringAttr>> seen;
  for (const PlannedOp &planned : ops) {
    Operation *function = planned.op->getParentOfType<FunctionOpInterface>();
    auto name =
        StringAttr::get(planned.op->getContext(), getOpName(planned.op));
    if (!getResultFactors(planned).empty() &&
        seen.insert({function, name}).second)
      forward.push_back(&planned);
  }
  return forward;
}

void PlanResolver::checkPin(const FactorEntry &entry) {
  if (!findFactors("pins", entry.glob, entry.position))
    return;
  llvm::SetVector<StringRef> factors;
  for (const PlannedOp *made : findForwardOps(result.ops))
    if (matchesGlob(entry.glob, getOpName(made->op)))
      for (StringRef factor : getResultFactors(*made))
        factors.insert(factor);
  if (factors.empty()) {
    report(PlanRule::PinnedResult, entry.position,
           getPlanPath("pins", entry.glob),
           "expected an operator that makes something with factors of a name; "
           "pin what it takes or what uses it");
    return;
  }
  for (const FactorAssignment &assignment : entry.assignments)
    if (!factors.contains(assignment.key))
      report(PlanRule::Factor, assignment.position,
             getPlanPath("pins", entry.glob, assignment.key),
             "expected a factor of what these operators make (" +
                 llvm::join(factors, ", ") + "), got \"" + assignment.key +
                 "\"");
}

void PlanResolver::resolvePin(const PlannedOp &made, const FactorEntry &entry) {
  PlannedOp pin{made.op, made.rule, FactorAxes(made.axes.size()),
                SmallVector<bool>(made.axes.size(), false)};
  StringRef name = getOpName(made.op);
  llvm::SetVector<StringRef> factors = getResultFactors(made);
  llvm::StringMap<StringRef> takenBy;
  for (const FactorAssignment &assignment : entry.assignments) {
    if (!factors.contains(assignment.key))
      continue;
    unsigned factor = *made.rule.getFactor(assignment.key);
    pin.axes[factor] = toAxes(assignment.axes);
    pin.pinned[factor] = true;
    for (StringAttr axis : pin.axes[factor]) {
      auto [taken, isNew] = takenBy.insert({axis, assignment.key});
      if (!isNew)
        report(PlanRule::SharedAxis, assignment.position,
               getPlanPath("pins", entry.glob, assignment.key),
               "expected \"" + axis.getValue() +
                   "\" for one factor of what \"" + name +
                   "\" makes, got it for " + assignment.key + " and for " +
                   taken->second,
               name);
    }
  }
  result.pins.push_back(std::move(pin));
}

void PlanResolver::resolvePins() {
  for (const FactorEntry &entry : plan.pins)
    checkPin(entry);
  for (const PlannedOp *made : findForwardOps(result.ops)) {
    StringRef name = getOpName(made->op);
    const FactorEntry *rival = nullptr;
    const FactorEntry *entry = findPlanEntry(plan.pins, name, &rival);
    if (!entry)
      continue;
    if (rival)
      reportRival(entry->position, getPlanPath("pins", entry->glob),
                  rival->glob, name);
    resolvePin(*made, *entry);
  }
}

//===----------------------------------------------------------------------===//
// Priorities
//===----------------------------------------------------------------------===//

void PlanResolver::resolvePriorities() {
  for (const PlanPriority &priority : plan.priorities) {
    if (!findFactors("priorities", priority.glob, priority.position))
      continue;
    auto isSaid = [&](const PlannedOp &planned) {
      return matchesGlob(priority.glob, getOpName(planned.op));
    };
    if (llvm::none_of(result.pins, isSaid) &&
        llvm::none_of(result.ops, [&](const PlannedOp &planned) {
          return isSaid(planned) && llvm::is_contained(planned.pinned, true);
        }))
      report(PlanRule::Effect, priority.position,
             getPlanPath("priorities", priority.glob),
             "expected an entry of \"operators\" or \"pins\" for these "
             "operators: a priority tells when others hear of it");
  }
  for (const PlannedOp &planned : result.ops) {
    StringRef name = getOpName(planned.op);
    const PlanPriority *rival = nullptr;
    const PlanPriority *priority =
        findPlanPriority(plan.priorities, name, &rival);
    if (!priority)
      continue;
    if (rival)
      reportRival(priority->position, getPlanPath("priorities", priority->glob),
                  rival->glob, name);
    result.priorities.emplace_back(planned.op, priority->priority);
  }
}
