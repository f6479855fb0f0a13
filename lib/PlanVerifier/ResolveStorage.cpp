//===- ResolveStorage.cpp - A plan's "storage" and "splits" ---------------===//

#include "PlanResolver.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

void PlanResolver::checkStorage(const StorageEntry &entry) {
  int64_t highest = -1;
  std::vector<std::string> variables;
  for (VariableOp variable : module.getOps<VariableOp>()) {
    variables.push_back(variable.getSymName().str());
    if (matchesGlob(entry.glob, variable.getSymName()))
      highest = std::max<int64_t>(highest, variable.getTensorType().getRank());
  }
  StringRef reason;
  for (const AbsentVariable &variable : setting.absent) {
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
    std::string message = "no variable has such a name";
    std::string path = getPlanPath("storage", entry.glob);
    if (!reason.empty()) {
      report(PlanRule::Variable, entry.position, path, message + ": " + reason);
      return;
    }
    if (StringRef nearest = findNearestName(entry.glob, variables);
        !nearest.empty())
      message += "; the nearest is \"" + nearest.str() + "\"";
    reportUnknown(PlanRule::Variable, entry.position, path, message);
    return;
  }
  llvm::StringSet<> used;
  for (const DimAssignment &assignment : entry.assignments) {
    std::string path = getPlanPath("storage", entry.glob, assignment.key);
    if (assignment.key >= highest)
      report(PlanRule::Dimension, assignment.position, path,
             "expected a dimension below " + Twine(highest) +
                 ", the rank of these variables, got " + Twine(assignment.key));
    for (const std::string &axis : assignment.axes)
      if (!used.insert(axis).second)
        report(PlanRule::SharedAxis, assignment.position, path,
               "expected \"" + axis + "\" for one dimension, got it for two",
               "", axis);
  }
}

void PlanResolver::resolveStorage() {
  for (const StorageEntry &entry : plan.storage)
    checkStorage(entry);
  for (VariableOp variable : module.getOps<VariableOp>()) {
    const StorageEntry *rival = nullptr;
    const StorageEntry *entry =
        findPlanEntry(plan.storage, variable.getSymName(), &rival);
    if (!entry)
      continue;
    if (rival)
      reportRival(entry->position, getPlanPath("storage", entry->glob),
                  rival->glob, variable.getSymName())
          .isOfVariable = true;
    DimensionAxes dims(variable.getTensorType().getRank());
    for (const DimAssignment &assignment : entry->assignments)
      if (assignment.key < dims.size())
        dims[assignment.key] = toAxes(assignment.axes);
    result.storage.emplace_back(variable, std::move(dims));
  }
}

//===----------------------------------------------------------------------===//
// Splits
//===----------------------------------------------------------------------===//

const llvm::SetVector<StringRef> &
PlanResolver::getSliceableFactors(StringRef name) {
  auto [known, isNew] = sliceable.try_emplace(name);
  llvm::SetVector<StringRef> &factors = known->second;
  if (!isNew)
    return factors;
  for (const PlannedOp &planned : result.ops) {
    if (getOpName(planned.op) != name)
      continue;
    for (auto [i, operand] : llvm::enumerate(planned.op->getOperands())) {
      LoadOp load = findLoad(operand);
      auto variable = load ? module.lookupSymbol<VariableOp>(load.getVariable())
                           : VariableOp();
      if (!variable || variable.getRole() != VariableRole::Parameter)
        continue;
      for (const DimensionFactors &dim : planned.rule.operands[i])
        if (dim.size() == 1 && !planned.rule.factors[dim[0]].name.empty())
          factors.insert(planned.rule.factors[dim[0]].name);
    }
  }
  return factors;
}

bool PlanResolver::checkSplitOf(const PlannedOp &planned,
                                const PlanSplit &split) {
  unsigned index = *planned.rule.getFactor(split.factor);
  const Factor &factor = planned.rule.factors[index];
  StringRef name = getOpName(planned.op);
  std::string path = getPlanPath("splits", split.glob, split.factor);
  if (split.slices > factor.size) {
    report(PlanRule::Slices, split.position, path,
           "expected at most " + Twine(factor.size) + " slices, the size of " +
               split.factor + " in \"" + name + "\", got " +
               Twine(split.slices),
           name);
    return false;
  }
  if (planned.axes[index].empty()) {
    const llvm::SetVector<StringRef> &factors = getSliceableFactors(name);
    if (factors.contains(split.factor))
      return true;
    report(PlanRule::SlicedParameter, split.position, path,
           factors.empty()
               ? "\"" + name +
                     "\" reads no parameter that slices could cut: expected "
                     "an operator that reads one"
               : "expected a factor of a parameter that \"" + name +
                     "\" reads (" + llvm::join(factors, ", ") + "), got \"" +
                     split.factor + "\"",
           name);
    return false;
  }
  std::string text;
  llvm::raw_string_ostream message(text);
  message << "factor " << split.factor << " of \"" << name
          << "\" is split over ";
  llvm::interleaveComma(planned.axes[index], message,
                        [&](StringAttr axis) { message << axis; });
  message << ": expected a factor that every device has whole; run it in "
             "slices of another one";
  report(PlanRule::SlicedAxis, split.position, path, message.str(), name);
  return false;
}

void PlanResolver::resolveSplits() {
  for (const PlanSplit &split : plan.splits)
    if (auto factors = findFactors("splits", split.glob, split.position))
      expectFactor("splits", split.glob, split.factor, split.position,
                   *factors);
  for (const PlannedOp &planned : result.ops) {
    StringRef name = getOpName(planned.op);
    const PlanSplit *rival = nullptr;
    const PlanSplit *split = findPlanSplit(plan.splits, name, &rival);
    if (!split || !planned.rule.getFactor(split->factor))
      continue;
    if (rival)
      reportRival(split->position,
                  getPlanPath("splits", split->glob, split->factor),
                  rival->glob, name);
    if (!checkSplitOf(planned, *split))
      continue;
    result.splits.emplace_back(
        planned.op,
        SplitAttr::get(context, StringAttr::get(context, split->factor),
                       split->slices, split->sharded.value_or(split->slices)));
  }
}
