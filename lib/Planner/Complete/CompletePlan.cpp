//===- CompletePlan.cpp - Plans of which the user states a part -----------===//

#include "CompletePlan.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/PlanVerifier/PlanVerifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;

/// The axes of a standard plan.
static constexpr StringLiteral kAxes[] = {"pp", "dp", "cp", "tp"};

//===----------------------------------------------------------------------===//
// Pins
//===----------------------------------------------------------------------===//

llvm::Error heddle::pinStated(const Plan &stated, PlanPins &pins) {
  auto pin = [&](const std::string &text) { return parsePin(text, pins); };
  for (const PlanAxis &axis : stated.mesh)
    if (!llvm::is_contained(kAxes, axis.name))
      return llvm::createStringError(
          stated.source + ": $.mesh." + axis.name +
          ": expected the axes pp, dp, cp and tp with one size each, of which "
          "plans are completed, got \"" +
          axis.name + "\"");
  if (!stated.mesh.empty())
    for (StringRef axis : kAxes)
      if (llvm::Error problem =
              pin((axis + "=" +
                   Twine(std::max<int64_t>(1, stated.getAxisSize(axis))))
                      .str()))
        return problem;
  if (stated.subBatches)
    if (llvm::Error problem =
            pin("sub-batches=" + std::to_string(*stated.subBatches)))
      return problem;
  if (stated.recompute)
    if (llvm::Error problem =
            pin("recompute=" + stringifyRecomputeMode(*stated.recompute).str()))
      return problem;
  if (stated.overlap != Overlap::None)
    if (llvm::Error problem =
            pin("overlap=" + getNamedSchedule(stated.overlap).name.str()))
      return problem;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Completing
//===----------------------------------------------------------------------===//

namespace {

/// The names of a module's operators and variables.
struct Names {
  explicit Names(ModuleOp module) {
    module.walk([&](ShardingRuleOpInterface op) {
      StringRef name = getOpName(op);
      if (name.empty())
        return;
      operators.insert(name);
      for (const Factor &factor : op.getShardingRule().factors)
        factorsOf[name].insert(factor.name);
    });
    for (VariableOp variable : module.getOps<VariableOp>())
      variables.insert(variable.getSymName());
  }
  static bool matchesAny(const llvm::StringSet<> &names, StringRef glob) {
    return llvm::any_of(names, [&](const auto &name) {
      return matchesGlob(glob, name.getKey());
    });
  }

  /// Returns whether an operator that the glob matches has the factor.
  bool hasFactor(StringRef glob, StringRef factor) const {
    return llvm::any_of(factorsOf, [&](const auto &known) {
      return matchesGlob(glob, known.getKey()) &&
             known.getValue().contains(factor);
    });
  }

  llvm::StringSet<> operators, variables;
  llvm::StringMap<llvm::StringSet<>> factorsOf;
};

} // namespace

/// Returns the plan's axes for stated ones.
static std::vector<std::string> toAxesOf(const Plan &plan,
                                         ArrayRef<std::string> stated) {
  std::vector<std::string> axes;
  for (const std::string &name : stated) {
    if (plan.getAxisSize(name) > 0)
      axes.push_back(name);
    for (const PlanProduct &product : plan.products)
      if (product.name == name)
        llvm::append_range(axes, product.axes);
  }
  return axes;
}

template <typename KeyT>
static PlanEntry<KeyT> *findGlob(std::vector<PlanEntry<KeyT>> &entries,
                                 StringRef glob) {
  for (PlanEntry<KeyT> &entry : entries)
    if (entry.glob == glob)
      return &entry;
  return nullptr;
}

template <typename KeyT>
static PlanEntry<KeyT> toEntryOf(const Plan &plan,
                                 const PlanEntry<KeyT> &stated) {
  PlanEntry<KeyT> entry{stated.glob, {}, {}};
  for (const PlanAssignment<KeyT> &assignment : stated.assignments)
    entry.assignments.push_back(
        {assignment.key, toAxesOf(plan, assignment.axes), {}});
  return entry;
}

/// Adds an entry of operators. A factor that the plan splits over one of its
/// axes is whole, unless the entry states it, too.
static void addOperators(Plan &plan, FactorEntry entry, const Names &names) {
  llvm::StringSet<> taken;
  for (const FactorAssignment &assignment : entry.assignments)
    for (const std::string &axis : assignment.axes)
      taken.insert(axis);
  std::vector<FactorAssignment> whole;
  for (FactorEntry &own : plan.operators) {
    bool isWider = matchesGlob(own.glob, entry.glob);
    if (!isWider && !matchesGlob(entry.glob, own.glob))
      continue;
    llvm::erase_if(own.assignments, [&](const FactorAssignment &assignment) {
      if (entry.find(assignment.key))
        return own.glob == entry.glob || !isWider;
      bool isTaken = llvm::any_of(assignment.axes, [&](const auto &axis) {
        return taken.contains(axis);
      });
      if (isTaken && isWider && names.hasFactor(entry.glob, assignment.key))
        whole.push_back({assignment.key, {}, {}});
      return isTaken && !isWider;
    });
  }
  for (FactorAssignment &assignment : whole)
    if (!entry.find(assignment.key))
      entry.assignments.push_back(std::move(assignment));
  if (FactorEntry *own = findGlob(plan.operators, entry.glob))
    for (FactorAssignment &assignment : entry.assignments) {
      llvm::erase_if(own->assignments, [&](const FactorAssignment &other) {
        return other.key == assignment.key;
      });
      own->assignments.push_back(std::move(assignment));
    }
  else
    plan.operators.push_back(std::move(entry));
  llvm::erase_if(plan.operators, [](const FactorEntry &own) {
    return own.assignments.empty();
  });
}

void heddle::completePlan(Plan &plan, const Plan &stated, ModuleOp module) {
  Names names(module);
  auto isOperator = [&](StringRef glob) {
    return Names::matchesAny(names.operators, glob);
  };
  for (const FactorEntry &entry : stated.operators)
    if (isOperator(entry.glob))
      addOperators(plan, toEntryOf(plan, entry), names);
  for (const StorageEntry &entry : stated.storage) {
    if (!Names::matchesAny(names.variables, entry.glob))
      continue;
    // Standard plans and the solver's name variables; any glob that the stated
    // one matches is of variables that it decides.
    llvm::erase_if(plan.storage, [&](const StorageEntry &own) {
      return matchesGlob(entry.glob, own.glob);
    });
    plan.storage.push_back(toEntryOf(plan, entry));
  }
  for (const FactorEntry &entry : stated.pins)
    if (isOperator(entry.glob)) {
      llvm::erase_if(plan.pins, [&](const FactorEntry &own) {
        return matchesGlob(entry.glob, own.glob);
      });
      plan.pins.push_back(toEntryOf(plan, entry));
    }
  for (const PlanSplit &split : stated.splits)
    if (isOperator(split.glob))
      plan.splits.push_back(split);
  for (const PlanPriority &priority : stated.priorities)
    if (isOperator(priority.glob))
      plan.priorities.push_back(priority);
  auto isStated = [&](StringRef key) {
    return stated.getPosition(key).line != 0;
  };
  if (isStated("hierarchy"))
    plan.hierarchy = stated.hierarchy;
  if (isStated("reduce_gradients"))
    plan.reduceGradients = stated.reduceGradients;
  if (isStated("recompute_bytes"))
    plan.recomputeBytes = stated.recomputeBytes;
  if (isStated("exchange_chunks"))
    plan.exchangeChunks = stated.exchangeChunks;
  if (isStated("stages") || isStated("pipeline")) {
    plan.numStages = stated.numStages;
    plan.stages = stated.stages;
    plan.schedule = stated.schedule;
    plan.scheduleTable = stated.scheduleTable;
  }
}

//===----------------------------------------------------------------------===//
// Verifying
//===----------------------------------------------------------------------===//

llvm::Error heddle::verifyStated(const Plan &stated, ModuleOp module) {
  Plan plan = stated;
  // Sizes are not known yet, but names of axes are.
  if (plan.mesh.empty())
    for (StringRef axis : kAxes)
      plan.mesh.push_back({axis.str(), 1});
  plan.prediction.reset();
  std::vector<std::string> errors;
  for (const PlanProblem &problem : verifyPlan(module, plan, {})) {
    // The planner chooses the rows of a micro-batch, and so the rest of these.
    if (problem.isWarning || problem.rule == PlanRule::Schedule ||
        problem.rule == PlanRule::SubBatches)
      continue;
    errors.push_back(stated.source + ":" +
                     std::to_string(problem.position.line) + ":" +
                     std::to_string(problem.position.column) + ": " +
                     problem.path + ": " + problem.message);
  }
  if (errors.empty())
    return llvm::Error::success();
  return llvm::createStringError(llvm::join(errors, "\n"));
}
