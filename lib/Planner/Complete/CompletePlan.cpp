//===- CompletePlan.cpp - Plans of which the user states a part -----------===//

#include "CompletePlan.h"
#include "../Bounds/ProgramCounts.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/PlanVerifier/PlanVerifier.h"
#include "heddle/Simulate/Report.h"
#include "heddle/Stages/StageSchedule.h"
#include "llvm/ADT/StringExtras.h"
#include <map>
#include <set>

using namespace mlir;
using namespace heddle;

/// The axes of a standard plan.
static constexpr StringLiteral kAxes[] = {"pp", "dp", "cp", "tp"};

//===----------------------------------------------------------------------===//
// Pins
//===----------------------------------------------------------------------===//

/// Returns whether the plan's text has the key, even with its default.
static bool isStated(const Plan &plan, StringRef key) {
  return plan.getPosition(key).line != 0;
}

llvm::Error heddle::pinStated(const Plan &stated, PlanPins &pins) {
  auto pin = [&](const std::string &text) { return parsePin(text, pins); };
  for (const PlanAxis &axis : stated.mesh)
    if (!llvm::is_contained(kAxes, axis.name))
      return llvm::createStringError(
          stated.source + ": $.mesh." + axis.name +
          ": expected the axes pp, dp, cp and tp with one size each, of which "
          "plans are completed, got \"" +
          axis.name + "\"");
  if (isStated(stated, "mesh"))
    for (StringRef axis : kAxes)
      if (llvm::Error problem =
              pin((axis + "=" +
                   Twine(std::max<int64_t>(1, stated.getAxisSize(axis))))
                      .str()))
        return problem;
  if (isStated(stated, "stages") || isStated(stated, "pipeline"))
    pins.schedule = stated.schedule;
  if (!stated.scheduleTable.empty()) {
    llvm::Expected<StageSchedule> table =
        parseSchedule(stated.scheduleTable, stated.source, 0);
    if (!table)
      return table.takeError();
    if (llvm::Error problem =
            pin("micro-batches=" + std::to_string(table->microBatches)))
      return problem;
  }
  if (stated.subBatches)
    if (llvm::Error problem =
            pin("sub-batches=" + std::to_string(*stated.subBatches)))
      return problem;
  if (stated.recompute)
    if (llvm::Error problem =
            pin("recompute=" + stringifyRecomputeMode(*stated.recompute).str()))
      return problem;
  if (isStated(stated, "overlap"))
    if (llvm::Error problem =
            pin("overlap=" + getNamedSchedule(stated.overlap).name.str()))
      return problem;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Completing
//===----------------------------------------------------------------------===//

namespace {

/// The names of a module's operators, with the names of their factors, and of
/// its variables.
struct Names {
  explicit Names(ModuleOp module) {
    module.walk([&](ShardingRuleOpInterface op) {
      std::string name = getOpName(op).str();
      if (name.empty())
        return;
      std::set<std::string> &factors = operators[name];
      for (const Factor &factor : op.getShardingRule().factors)
        if (!factor.name.empty())
          factors.insert(factor.name);
    });
    for (VariableOp variable : module.getOps<VariableOp>())
      variables.insert(variable.getSymName().str());
  }

  bool hasOperator(StringRef glob) const {
    return llvm::any_of(operators, [&](const auto &known) {
      return matchesGlob(glob, known.first);
    });
  }
  bool hasVariable(StringRef glob) const {
    return llvm::any_of(variables, [&](const std::string &name) {
      return matchesGlob(glob, name);
    });
  }

  std::map<std::string, std::set<std::string>> operators;
  std::set<std::string> variables;
};

} // namespace

/// Replaces stated axes by the axes of the plan's mesh.
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

/// Returns the entry of a glob. Adds one if there is none.
template <typename KeyT>
static PlanEntry<KeyT> &findOrAddGlob(std::vector<PlanEntry<KeyT>> &entries,
                                      StringRef glob) {
  if (PlanEntry<KeyT> *entry = findGlob(entries, glob))
    return *entry;
  entries.push_back({glob.str(), {}, {}});
  return entries.back();
}

template <typename KeyT>
static bool isSame(ArrayRef<PlanAssignment<KeyT>> a,
                   ArrayRef<PlanAssignment<KeyT>> b) {
  auto contains = [](ArrayRef<PlanAssignment<KeyT>> all,
                     const PlanAssignment<KeyT> &wanted) {
    return llvm::any_of(all, [&](const PlanAssignment<KeyT> &other) {
      return other.key == wanted.key && other.axes == wanted.axes;
    });
  };
  return a.size() == b.size() &&
         llvm::all_of(a, [&](const auto &one) { return contains(b, one); });
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

namespace {

/// Adds the user's entries for operators to a plan. First decides the axes of
/// every factor of every operator. Then adds the user's entries. Last, adds
/// further entries where a more specific glob of the plan would win, or where a
/// stated factor takes axes from other factors.
class OperatorCompleter {
public:
  OperatorCompleter(std::vector<FactorEntry> &entries,
                    std::vector<FactorEntry> fixed, const Names &names)
      : entries(entries), fixed(std::move(fixed)), names(names) {}

  void run() {
    if (fixed.empty())
      return;
    for (const auto &[name, factors] : names.operators)
      decide(name, factors);
    addFixed();
    for (const FactorEntry &entry : fixed)
      mend(entry.glob);
    for (const auto &known : names.operators)
      mend(generalizeNames(known.first));
    for (const auto &known : names.operators)
      mend(known.first);
    llvm::erase_if(entries, [](const FactorEntry &own) {
      return own.assignments.empty();
    });
  }

private:
  using Axes = std::vector<std::string>;

  void decide(const std::string &name, const std::set<std::string> &factors);
  void addFixed();
  /// If all operators of a glob want the same axes, adds to the glob's entry
  /// the factors for which some of these operators would get other axes.
  void mend(StringRef glob);
  bool isWrong(const std::string &name, const std::string &factor) const;
  bool isFixed(StringRef glob, const std::string &factor) const {
    return llvm::any_of(fixed, [&](const FactorEntry &entry) {
      return entry.glob == glob && entry.find(factor);
    });
  }

  std::vector<FactorEntry> &entries;
  std::vector<FactorEntry> fixed;
  const Names &names;
  /// By operators and factors.
  std::map<std::string, std::map<std::string, Axes>> wanted;
};

} // namespace

void OperatorCompleter::decide(const std::string &name,
                               const std::set<std::string> &factors) {
  std::set<std::string> taken;
  for (const std::string &factor : factors)
    if (const FactorEntry *entry = findPlanEntry(fixed, name, factor)) {
      const Axes &axes = wanted[name][factor] = entry->find(factor)->axes;
      taken.insert(axes.begin(), axes.end());
    }
  for (const std::string &factor : factors) {
    const FactorEntry *own = findPlanEntry(entries, name, factor);
    if (!own || wanted[name].count(factor))
      continue;
    Axes &axes = wanted[name][factor] = own->find(factor)->axes;
    llvm::erase_if(axes, [&](const auto &axis) { return taken.count(axis); });
  }
}

void OperatorCompleter::addFixed() {
  for (FactorEntry &own : entries)
    llvm::erase_if(own.assignments, [&](const FactorAssignment &assignment) {
      return llvm::any_of(fixed, [&](const FactorEntry &entry) {
        return entry.find(assignment.key) && matchesGlob(entry.glob, own.glob);
      });
    });
  for (const FactorEntry &entry : fixed)
    llvm::append_range(findOrAddGlob(entries, entry.glob).assignments,
                       entry.assignments);
}

bool OperatorCompleter::isWrong(const std::string &name,
                                const std::string &factor) const {
  const FactorEntry *rival = nullptr;
  const FactorEntry *entry = findPlanEntry(entries, name, factor, &rival);
  return entry && (entry->find(factor)->axes != wanted.at(name).at(factor) ||
                   (rival && !isFixed(rival->glob, factor)));
}

void OperatorCompleter::mend(StringRef glob) {
  std::map<std::string, const Axes *> same; // null: operators differ
  std::set<std::string> wrong;
  for (const auto &[name, factors] : wanted) {
    if (!matchesGlob(glob, name))
      continue;
    for (const auto &[factor, axes] : factors) {
      auto [known, isNew] = same.try_emplace(factor, &axes);
      if (!isNew && known->second && *known->second != axes)
        known->second = nullptr;
      if (isWrong(name, factor))
        wrong.insert(factor);
    }
  }
  for (const std::string &factor : wrong) {
    if (!same[factor] || isFixed(glob, factor))
      continue;
    for (FactorEntry &own : entries)
      if (matchesGlob(glob, own.glob) && !isFixed(own.glob, factor))
        llvm::erase_if(own.assignments, [&](const FactorAssignment &other) {
          return other.key == factor;
        });
    findOrAddGlob(entries, glob)
        .assignments.push_back({factor, *same[factor], {}});
  }
}

//===----------------------------------------------------------------------===//
// Storage and layouts
//===----------------------------------------------------------------------===//

/// Adds the user's entries to a section in which only the most specific entry
/// of a name counts. Where an entry of the plan would win, adds the user's
/// entry again for that name alone.
template <typename KeyT, typename NamesT>
static void addWhole(std::vector<PlanEntry<KeyT>> &entries,
                     const std::vector<PlanEntry<KeyT>> &fixed,
                     const NamesT &names) {
  llvm::erase_if(entries, [&](const PlanEntry<KeyT> &own) {
    return llvm::any_of(fixed, [&](const PlanEntry<KeyT> &entry) {
      return matchesGlob(entry.glob, own.glob);
    });
  });
  llvm::append_range(entries, fixed);
  for (const std::string &name : names) {
    const PlanEntry<KeyT> *wanted = findPlanEntry(fixed, name);
    if (wanted && !isSame<KeyT>(findPlanEntry(entries, name)->assignments,
                                wanted->assignments))
      findOrAddGlob(entries, name).assignments = wanted->assignments;
  }
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Replaces the entries of the globs of `stated` that match operators. Only one
/// entry may have a glob.
template <typename EntryT>
static void replaceEntries(std::vector<EntryT> &entries,
                           const std::vector<EntryT> &stated,
                           const Names &names) {
  for (const EntryT &entry : stated) {
    if (!names.hasOperator(entry.glob))
      continue;
    llvm::erase_if(
        entries, [&](const EntryT &other) { return other.glob == entry.glob; });
    entries.push_back(entry);
  }
}

void heddle::completePlan(Plan &plan, const Plan &stated,
                          std::vector<FactorEntry> pinned, ModuleOp module) {
  Names names(module);
  auto isOperator = [&](StringRef glob) { return names.hasOperator(glob); };
  std::vector<FactorEntry> fixed = std::move(pinned);
  for (const FactorEntry &entry : stated.operators) {
    if (!isOperator(entry.glob))
      continue;
    FactorEntry &known = findOrAddGlob(fixed, entry.glob);
    for (FactorAssignment &assignment : toEntryOf(plan, entry).assignments)
      if (!known.find(assignment.key))
        known.assignments.push_back(std::move(assignment));
  }
  OperatorCompleter(plan.operators, std::move(fixed), names).run();

  std::vector<StorageEntry> storage;
  for (const StorageEntry &entry : stated.storage)
    if (names.hasVariable(entry.glob))
      storage.push_back(toEntryOf(plan, entry));
  addWhole(plan.storage, storage, names.variables);
  std::vector<FactorEntry> layouts;
  for (const FactorEntry &entry : stated.pins)
    if (isOperator(entry.glob))
      layouts.push_back(toEntryOf(plan, entry));
  addWhole(plan.pins, layouts, llvm::make_first_range(names.operators));
  replaceEntries(plan.splits, stated.splits, names);
  replaceEntries(plan.priorities, stated.priorities, names);
  if (isStated(stated, "hierarchy"))
    plan.hierarchy = stated.hierarchy;
  if (isStated(stated, "reduce_gradients"))
    plan.reduceGradients = stated.reduceGradients;
  if (plan.subBatches == stated.subBatches)
    plan.subBatchSizes = stated.subBatchSizes;
  if (isStated(stated, "recompute_bytes"))
    plan.recomputeBytes = stated.recomputeBytes;
  if (isStated(stated, "exchange_chunks"))
    plan.exchangeChunks = stated.exchangeChunks;
  if (isStated(stated, "exchange_ring"))
    plan.exchangeRing = stated.exchangeRing;
  if (isStated(stated, "scatter_sums"))
    plan.scatterSums = stated.scatterSums;
  if (stated.numStages > 0) {
    plan.numStages = stated.numStages;
    plan.stages = stated.stages;
    plan.schedule = stated.schedule;
    plan.scheduleTable = stated.scheduleTable;
  }
}

//===----------------------------------------------------------------------===//
// Verifying
//===----------------------------------------------------------------------===//

llvm::Error heddle::verifyPins(const PlanPins &pins, ModuleOp module) {
  Names names(module);
  for (const std::string &glob : pins.replicated) {
    if (names.hasOperator(glob))
      continue;
    std::vector<std::string> operators;
    for (const auto &[name, factors] : names.operators)
      operators.push_back(name);
    StringRef nearest = findNearestName(glob, operators);
    return llvm::createStringError(
        "--pin " + glob + "=replicated: no operator has such a name" +
        (nearest.empty() ? "" : "; the nearest is \"" + nearest.str() + "\""));
  }
  return llvm::Error::success();
}

/// Returns the error of the first stated operators that are split although the
/// same glob is pinned as replicated. Of globs that differ, the most specific
/// one decides.
static llvm::Error checkReplicated(const Plan &stated, const PlanPins &pins,
                                   ModuleOp module) {
  for (const FactorEntry &entry : stated.operators) {
    if (!llvm::is_contained(pins.replicated, entry.glob))
      continue;
    std::set<std::string> ofWeights;
    module.walk([&](ShardingRuleOpInterface op) {
      if (matchesGlob(entry.glob, getOpName(op)))
        for (const Factor &factor : op.getShardingRule().factors)
          if (isTensorRole(factor.role))
            ofWeights.insert(factor.name);
    });
    for (const FactorAssignment &assignment : entry.assignments)
      if (!assignment.axes.empty() && ofWeights.count(assignment.key))
        return llvm::createStringError(
            stated.source + ":" + std::to_string(assignment.position.line) +
            ":" + std::to_string(assignment.position.column) + ": " +
            getPlanPath("operators", entry.glob, assignment.key) +
            ": contradicts what is pinned already: --pin " + entry.glob +
            "=replicated");
  }
  return llvm::Error::success();
}

llvm::Error heddle::verifyStated(const Plan &stated, const PlanPins &pins,
                                 ModuleOp module) {
  Plan plan = stated;
  // The sizes of the mesh are not known yet, but the names of its axes are.
  if (!isStated(stated, "mesh"))
    for (StringRef axis : kAxes)
      plan.mesh.push_back({axis.str(), 1});
  plan.prediction.reset();
  std::vector<std::string> errors;
  for (const PlanProblem &problem : verifyPlan(module, plan, {})) {
    // The planner chooses the rows of a micro-batch, so rules of the schedule
    // and of sub-batches are not checked here.
    if (problem.isWarning || problem.rule == PlanRule::Schedule ||
        problem.rule == PlanRule::SubBatches)
      continue;
    errors.push_back(stated.source + ":" +
                     std::to_string(problem.position.line) + ":" +
                     std::to_string(problem.position.column) + ": " +
                     problem.path + ": " + problem.message);
  }
  if (errors.empty())
    return checkReplicated(stated, pins, module);
  return llvm::createStringError(llvm::join(errors, "\n"));
}
