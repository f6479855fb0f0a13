//===- PlanStorage.cpp - A plan's "storage" and "splits" ------------------===//

#include "PlanApplier.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

LogicalResult PlanApplier::checkStorage(const StorageEntry &entry) {
  int64_t highest = -1;
  std::vector<std::string> variables;
  for (VariableOp variable : module.getOps<VariableOp>()) {
    variables.push_back(variable.getSymName().str());
    if (matchesGlob(entry.glob, variable.getSymName()))
      highest = std::max<int64_t>(highest, variable.getTensorType().getRank());
  }
  StringRef reason;
  for (const AbsentVariable &variable : absent) {
    if (variable.reason.empty())
      variables.push_back(variable.name);
    if (!matchesGlob(entry.glob, variable.name))
      continue;
    if (variable.reason.empty())
      highest = std::max(highest, variable.rank);
    else
      reason = variable.reason;
  }
  if (highest < 0) {
    auto diag = error(entry.position, getPlanPath("storage", entry.glob))
                << "no variable has such a name";
    if (!reason.empty())
      diag << ": " << reason;
    else if (StringRef nearest = findNearestName(entry.glob, variables);
             !nearest.empty())
      diag << "; the nearest is \"" << nearest << "\"";
    return diag;
  }
  llvm::StringSet<> used;
  for (const DimAssignment &assignment : entry.assignments) {
    std::string path = getPlanPath("storage", entry.glob, assignment.key);
    if (assignment.key >= highest)
      return error(assignment.position, path)
             << "expected a dimension below " << highest
             << ", the rank of these variables, got " << assignment.key;
    for (const std::string &axis : assignment.axes)
      if (!used.insert(axis).second)
        return error(assignment.position, path)
               << "expected \"" << axis << "\" for one dimension";
  }
  return success();
}

LogicalResult PlanApplier::assignStorage() {
  for (const StorageEntry &entry : plan.storage)
    if (failed(checkStorage(entry)))
      return failure();
  for (VariableOp variable : module.getOps<VariableOp>()) {
    const StorageEntry *rival = nullptr;
    const StorageEntry *entry =
        findPlanEntry(plan.storage, variable.getSymName(), &rival);
    if (!entry)
      continue;
    if (rival)
      return error(entry->position, getPlanPath("storage", entry->glob))
             << "\"" << rival->glob << "\" is as specific and says otherwise "
             << "of \"" << variable.getSymName() << "\"";
    DimensionAxes dims(variable.getTensorType().getRank());
    for (const DimAssignment &assignment : entry->assignments)
      if (assignment.key < dims.size())
        dims[assignment.key] = toAxes(assignment.axes);
    storage.emplace_back(variable, std::move(dims));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Splits
//===----------------------------------------------------------------------===//

LogicalResult PlanApplier::checkSplits() {
  for (const PlanSplit &split : plan.splits) {
    auto factors = findFactors("splits", split.glob, split.position);
    if (failed(factors) ||
        failed(expectFactor("splits", split.glob, split.factor, split.position,
                            *factors)))
      return failure();
  }
  return success();
}

LogicalResult PlanApplier::checkSplitOf(const PlannedOp &planned,
                                        const PlanSplit &split) {
  unsigned index = *planned.rule.getFactor(split.factor);
  const Factor &factor = planned.rule.factors[index];
  std::string path = getPlanPath("splits", split.glob, split.factor);
  if (split.slices > factor.size)
    return error(split.position, path)
           << "expected at most " << factor.size << " slices, the size of "
           << split.factor << " in \"" << getOpName(planned.op) << "\", got "
           << split.slices;
  if (planned.axes[index].empty())
    return success();
  auto diag = error(split.position, path)
              << "factor " << split.factor << " of \"" << getOpName(planned.op)
              << "\" is split over ";
  llvm::interleaveComma(planned.axes[index], diag,
                        [&](StringAttr axis) { diag << axis; });
  return diag << ": expected a factor that every device has whole; run it in "
                 "slices of another one";
}

LogicalResult PlanApplier::assignSplits() {
  if (failed(checkSplits()))
    return failure();
  for (const PlannedOp &planned : ops) {
    StringRef name = getOpName(planned.op);
    const PlanSplit *rival = nullptr;
    const PlanSplit *split = findPlanSplit(plan.splits, name, &rival);
    if (!split || !planned.rule.getFactor(split->factor))
      continue;
    if (rival)
      return error(split->position,
                   getPlanPath("splits", split->glob, split->factor))
             << "\"" << rival->glob << "\" is as specific and says otherwise "
             << "of \"" << name << "\"";
    if (failed(checkSplitOf(planned, *split)))
      return failure();
    splits.emplace_back(
        planned.op,
        SplitAttr::get(context, StringAttr::get(context, split->factor),
                       split->slices, split->sharded.value_or(split->slices)));
  }
  return success();
}
