//===- PlanPins.cpp - A plan's "pins" and "priorities" --------------------===//

#include "PlanApplier.h"
#include "heddle/Sharding/Pins.h"
#include "llvm/ADT/STLExtras.h"

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

LogicalResult PlanApplier::checkPin(const FactorEntry &entry) {
  // findFactors reports globs that match nothing.
  if (failed(findFactors("pins", entry.glob, entry.position)))
    return failure();
  llvm::SetVector<StringRef> factors;
  for (const PlannedOp *made : findForwardOps(ops))
    if (matchesGlob(entry.glob, getOpName(made->op)))
      for (StringRef factor : getResultFactors(*made))
        factors.insert(factor);
  if (factors.empty())
    return error(entry.position, getPlanPath("pins", entry.glob))
           << "expected an operator that makes something with factors of a "
              "name; pin what it takes or what uses it";
  for (const FactorAssignment &assignment : entry.assignments)
    if (!factors.contains(assignment.key))
      return error(assignment.position,
                   getPlanPath("pins", entry.glob, assignment.key))
             << "expected a factor of what these operators make ("
             << llvm::join(factors, ", ") << "), got \"" << assignment.key
             << "\"";
  return success();
}

LogicalResult PlanApplier::assignPin(const PlannedOp &made,
                                     const FactorEntry &entry) {
  PlannedOp pin{made.op, made.rule, FactorAxes(made.axes.size()),
                SmallVector<bool>(made.axes.size(), false)};
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
        return error(assignment.position,
                     getPlanPath("pins", entry.glob, assignment.key))
               << "expected " << axis << " for one factor of what \""
               << getOpName(made.op) << "\" makes, got it for "
               << assignment.key << " and for " << taken->second;
    }
  }
  pins.push_back(std::move(pin));
  return success();
}

LogicalResult PlanApplier::assignPins() {
  for (const FactorEntry &entry : plan.pins)
    if (failed(checkPin(entry)))
      return failure();
  for (const PlannedOp *made : findForwardOps(ops)) {
    StringRef name = getOpName(made->op);
    const FactorEntry *rival = nullptr;
    const FactorEntry *entry = findPlanEntry(plan.pins, name, &rival);
    if (!entry)
      continue;
    if (rival)
      return error(entry->position, getPlanPath("pins", entry->glob))
             << "\"" << rival->glob << "\" is as specific and says otherwise "
             << "of \"" << name << "\"";
    if (failed(assignPin(*made, *entry)))
      return failure();
  }
  return success();
}

void PlanApplier::setPin(const PlannedOp &pin, MeshRef ref) {
  DimensionAxes dims;
  for (const DimensionFactors &dim : pin.rule.results.front())
    dims.push_back(getDimensionAxes(dim, pin.axes));
  setPinOf(pin.op->getResult(0), makeSharding(ref, dims));
}

//===----------------------------------------------------------------------===//
// Priorities
//===----------------------------------------------------------------------===//

LogicalResult PlanApplier::checkPriority(const PlanPriority &priority) {
  if (failed(findFactors("priorities", priority.glob, priority.position)))
    return failure();
  bool hasSaid = llvm::any_of(ops, [&](const PlannedOp &planned) {
    return matchesGlob(priority.glob, getOpName(planned.op)) &&
           llvm::is_contained(planned.pinned, true);
  });
  hasSaid |= llvm::any_of(pins, [&](const PlannedOp &pin) {
    return matchesGlob(priority.glob, getOpName(pin.op));
  });
  if (hasSaid)
    return success();
  return error(priority.position, getPlanPath("priorities", priority.glob))
         << "expected an entry of \"operators\" or \"pins\" for these "
            "operators: a priority tells when others hear of it";
}

LogicalResult PlanApplier::assignPriorities() {
  for (const PlanPriority &priority : plan.priorities)
    if (failed(checkPriority(priority)))
      return failure();
  for (const PlannedOp &planned : ops) {
    StringRef name = getOpName(planned.op);
    const PlanPriority *rival = nullptr;
    const PlanPriority *priority =
        findPlanPriority(plan.priorities, name, &rival);
    if (!priority)
      continue;
    if (rival)
      return error(priority->position,
                   getPlanPath("priorities", priority->glob))
             << "\"" << rival->glob << "\" is as specific and says otherwise "
             << "of \"" << name << "\"";
    priorities.emplace_back(planned.op, priority->priority);
  }
  return success();
}
