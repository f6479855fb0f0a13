//===- PlanApplier.cpp - Checks and applies a plan ------------------------===//

#include "PlanApplier.h"
#include "dialects/Heddle/StageTable.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

InFlightDiagnostic PlanApplier::error(PlanPosition at, StringRef path) {
  Location loc = UnknownLoc::get(context);
  if (at.line && !plan.source.empty())
    loc = FileLineColLoc::get(context, plan.source, at.line, at.column);
  return emitError(loc) << path << ": ";
}

/// Returns the axis that a refined axis is a part of ("tp" for "tp.0"), or "".
static StringRef getWholeAxis(StringRef name) {
  auto [whole, part] = name.rsplit('.');
  return !part.empty() && llvm::all_of(part, llvm::isDigit) ? whole : "";
}

LogicalResult PlanApplier::checkMesh(int64_t devices) {
  // A plan in memory has not been through the file's reader, so its sizes are
  // checked again.
  int64_t most =
      devices > 0 ? std::min(devices, kMaxPlanDevices) : kMaxPlanDevices;
  int64_t product = 1;
  for (const PlanAxis &axis : plan.mesh) {
    if (axis.size < 1)
      return error({1, 1}, "$.mesh." + axis.name)
             << "expected a positive number of devices, got " << axis.size;
    if (axis.size > kMaxPlanDevices / product)
      return error({1, 1}, "$.mesh")
             << "expected a mesh of at most " << most << " devices, got more";
    product *= axis.size;
    if (StringRef whole = getWholeAxis(axis.name); plan.getAxisSize(whole))
      return error({1, 1}, "$.mesh." + axis.name)
             << "expected no axis with the name of a part of \"" << whole
             << "\": parts may be made of it for key/value heads; rename one";
  }
  if (product > most)
    return error({1, 1}, "$.mesh") << "expected a mesh of at most " << most
                                   << " devices, got " << product;
  if (MeshOp present = module.lookupSymbol<MeshOp>("mesh"))
    return present.emitError() << "expected a module without a mesh: a plan "
                                  "has been applied already";
  if (Operation *taken = module.lookupSymbol("mesh"))
    return taken->emitError()
           << "expected the symbol @mesh to be free: the mesh "
              "of the plan, or of one device where there is "
              "no plan, has this name; rename yours";
  SmallVector<MeshAxisAttr> axes;
  for (const PlanAxis &axis : plan.mesh)
    axes.push_back(MeshAxisAttr::get(
        context, StringAttr::get(context, axis.name), axis.size));
  mesh = MeshAttr::get(context, axes);
  return success();
}

void PlanApplier::collect() {
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
    ops.push_back({op, std::move(rule), FactorAxes(count),
                   SmallVector<bool>(count, false)});
  });
}

Axes PlanApplier::toAxes(ArrayRef<std::string> names) {
  Axes axes;
  for (const std::string &name : names)
    if (plan.getAxisSize(name) > 1)
      axes.push_back(StringAttr::get(context, name));
  return axes;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// Returns the factors of all operators that match the glob; an error if none
/// matches.
FailureOr<llvm::SetVector<StringRef>>
PlanApplier::findFactors(StringRef section, StringRef glob, PlanPosition at) {
  llvm::SetVector<StringRef> factors;
  bool matches = false;
  for (auto &[name, own] : factorsOf)
    if (matchesGlob(glob, name)) {
      matches = true;
      factors.insert(own.begin(), own.end());
    }
  if (matches)
    return factors;
  auto diag = error(at, getPlanPath(section, glob))
              << "no operator has such a name";
  if (StringRef nearest = findNearestName(glob, names); !nearest.empty())
    diag << "; the nearest is \"" << nearest << "\"";
  if (auto model = module->getAttrOfType<StringAttr>(kModelAttrName))
    diag.attachNote(module.getLoc())
        << "the model is " << model << " with " << names.size()
        << " named operators; is the plan for another model?";
  return diag;
}

LogicalResult
PlanApplier::expectFactor(StringRef section, StringRef glob, StringRef factor,
                          PlanPosition at,
                          const llvm::SetVector<StringRef> &factors) {
  if (factors.contains(factor))
    return success();
  if (factors.empty())
    return error(at, getPlanPath(section, glob, factor))
           << "these operators have no factors of a name: they follow their "
              "neighbours, or the pin of one";
  return error(at, getPlanPath(section, glob, factor))
         << "expected a factor of these operators ("
         << llvm::join(factors, ", ") << "), got \"" << factor << "\"";
}

LogicalResult PlanApplier::checkEntry(const FactorEntry &entry) {
  auto factors = findFactors("operators", entry.glob, entry.position);
  if (failed(factors))
    return failure();
  for (const FactorAssignment &assignment : entry.assignments)
    if (failed(expectFactor("operators", entry.glob, assignment.key,
                            assignment.position, *factors)))
      return failure();
  return success();
}

LogicalResult PlanApplier::checkOperators() {
  for (const FactorEntry &entry : plan.operators)
    if (failed(checkEntry(entry)))
      return failure();
  return success();
}

/// Returns the degrees nearest to `wanted` by which the factor can be split: "2
/// and 4", or "1" if it must stay whole.
static std::string legalDegrees(const Factor &factor, int64_t wanted) {
  if (factor.kind == FactorKind::Replicate)
    return "1";
  int64_t below = 1, above = factor.size;
  for (int64_t degree = 1; degree <= factor.size; ++degree)
    if (factor.size % degree == 0) {
      if (degree < wanted)
        below = degree;
      else if (degree > wanted) {
        above = degree;
        break;
      }
    }
  return std::to_string(below) + " and " + std::to_string(above);
}

LogicalResult PlanApplier::checkSplit(const PlannedOp &planned, unsigned factor,
                                      const FactorEntry &entry,
                                      const FactorAssignment &assignment) {
  const Factor &what = planned.rule.factors[factor];
  const Axes &axes = planned.axes[factor];
  if (axes.empty())
    return success();
  bool whole = what.kind == FactorKind::Replicate;
  if (!whole && isRepresentable(planned.rule, planned.axes, mesh))
    return success();
  auto diag = error(assignment.position,
                    getPlanPath("operators", entry.glob, assignment.key))
              << "factor " << assignment.key << " of \""
              << getOpName(planned.op) << "\" (" << planned.op->getName()
              << "), of size " << what.size << ", cannot be split over ";
  llvm::interleaveComma(axes, diag, [&](StringAttr axis) {
    diag << axis << " (" << mesh.getAxisSize(axis) << ")";
  });
  diag << (whole ? ": the op needs it whole" : ": it does not divide")
       << "; the nearest legal degrees are "
       << legalDegrees(what, mesh.getSize(axes));
  // The message names the op already. A note helps only if the op has a place
  // in a file.
  if (planned.op->getLoc()->findInstanceOf<FileLineColLoc>())
    diag.attachNote(planned.op->getLoc()) << "the operator";
  return diag;
}

LogicalResult PlanApplier::assignOp(PlannedOp &planned) {
  StringRef name = getOpName(planned.op);
  struct Source {
    const FactorEntry *entry;
    const FactorAssignment *assignment;
  };
  SmallVector<Source> sources(planned.axes.size(), {nullptr, nullptr});
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
      return error(assignment->position,
                   getPlanPath("operators", entry->glob, factor.name))
             << "\"" << rival->glob
             << "\" is as specific and says otherwise of \"" << name << "\"";
    planned.axes[i] = toAxes(assignment->axes);
    planned.pinned[i] = true;
    sources[i] = {entry, assignment};
  }
  if (std::optional<SharedAxis> shared =
          findSharedAxis(planned.rule, planned.axes)) {
    auto [entry, assignment] = sources[shared->second];
    return error(assignment->position,
                 getPlanPath("operators", entry->glob, assignment->key))
           << "expected " << shared->axis << " for one factor of \"" << name
           << "\", got it for " << assignment->key << " and for "
           << planned.rule.factors[shared->first].name;
  }
  for (unsigned i = 0; i < sources.size(); ++i) {
    auto [entry, assignment] = sources[i];
    if (!entry)
      continue;
    if (failed(checkSplit(planned, i, *entry, *assignment)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Applying the plan
//===----------------------------------------------------------------------===//

LogicalResult PlanApplier::apply(int64_t devices) {
  if (failed(checkMesh(devices)))
    return failure();
  collect();
  if (failed(checkOperators()))
    return failure();
  for (PlannedOp &planned : ops)
    if (failed(assignOp(planned)))
      return failure();
  if (failed(assignStorage()) || failed(assignSplits()) ||
      failed(assignPins()) || failed(assignPriorities()) ||
      failed(assignStages()))
    return failure();

  SmallVector<DimensionAxes> dims;
  for (auto &[variable, list] : storage)
    dims.push_back(std::move(list));
  // Pins get the refined axes of the ops that make the pinned values.
  size_t count = ops.size();
  std::move(pins.begin(), pins.end(), std::back_inserter(ops));
  refineAxes(context, mesh, ops, dims);

  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  auto meshOp = builder.create<MeshOp>(module.getLoc(), "mesh", mesh);
  MeshRef ref{FlatSymbolRefAttr::get(meshOp), mesh};
  for (auto [entry, list] : llvm::zip(storage, dims))
    if (llvm::any_of(list, [](const Axes &axes) { return !axes.empty(); }))
      entry.first->setAttr(kStorageAxesAttrName, makeSharding(ref, list));
  for (auto [op, split] : splits)
    op->setAttr(kSplitAttrName, split);
  for (auto [i, planned] : llvm::enumerate(ops)) {
    if (i < count)
      setFactors(planned);
    else
      setPin(planned, ref);
  }
  for (auto [op, priority] : priorities)
    op->setAttr(kPriorityAttrName, builder.getI64IntegerAttr(priority));
  for (auto [op, stage] : stages)
    op->setAttr(kStageAttrName, builder.getI64IntegerAttr(stage));
  if (plan.numStages > 0)
    module->setAttr(kPipelineAttrName,
                    PipelineAttr::get(context,
                                      builder.getStringAttr(kPipelineAxis),
                                      plan.schedule, plan.numStages));
  if (!plan.scheduleTable.empty())
    module->setAttr(kStageTableAttrName,
                    builder.getStringAttr(plan.scheduleTable));
  return success();
}

void PlanApplier::setFactors(const PlannedOp &planned) {
  // A factor that the plan keeps whole is written with an empty list.
  SmallVector<FactorAxesAttr> entries;
  for (auto [i, factor] : llvm::enumerate(planned.rule.factors))
    if (planned.pinned[i])
      entries.push_back(
          FactorAxesAttr::get(context, StringAttr::get(context, factor.name),
                              AxisListAttr::get(context, planned.axes[i])));
  if (!entries.empty())
    planned.op->setAttr(kFactorsAttrName,
                        FactorShardingAttr::get(context, entries));
}
