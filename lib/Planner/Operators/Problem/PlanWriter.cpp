//===- PlanWriter.cpp - From a solution to the entries of a plan ----------===//

#include "PlanWriter.h"
#include "heddle/Simulate/Report.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <map>
#include <set>

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Globs
//===----------------------------------------------------------------------===//

/// Returns globs that match exactly `names` among all names: one glob of the
/// common prefix and suffix if it matches no other name, else the names
/// themselves.
static std::vector<std::string> getGlobs(ArrayRef<std::string> names,
                                         ArrayRef<std::string> all) {
  if (names.size() < 2)
    return std::vector<std::string>(names.begin(), names.end());
  StringRef first = names.front();
  size_t shortest = first.size(), prefix = first.size(), suffix = first.size();
  for (StringRef name : names) {
    size_t length = std::min(first.size(), name.size()), i = 0;
    shortest = std::min(shortest, name.size());
    while (i < length && name[i] == first[i])
      ++i;
    prefix = std::min(prefix, i);
    for (i = 0; i < length &&
                name[name.size() - 1 - i] == first[first.size() - 1 - i];)
      ++i;
    suffix = std::min(suffix, i);
  }
  suffix = std::min(suffix, shortest - prefix);
  std::string glob =
      (first.take_front(prefix) + "*" + first.take_back(suffix)).str();
  llvm::StringSet<> wanted;
  for (const std::string &name : names)
    wanted.insert(name);
  for (const std::string &name : all)
    if (matchesGlob(glob, name) && !wanted.contains(name))
      return std::vector<std::string>(names.begin(), names.end());
  return {glob};
}

static std::vector<std::string> getNames(const VariableClass &made) {
  std::vector<std::string> names;
  for (VariableOp variable : made.variables)
    names.push_back(variable.getSymName().str());
  return names;
}

namespace {
/// The names of a program's operators and variables.
struct Names {
  explicit Names(const Program &program) {
    llvm::StringSet<> seen;
    for (const OpClass &made : program.ops)
      for (Operation *op : made.ops)
        if (StringRef name = getOpName(op);
            !name.empty() && seen.insert(name).second)
          operators.push_back(name.str());
    for (const VariableClass &made : program.variables)
      llvm::append_range(variables, getNames(made));
  }

  std::vector<std::string> operators, variables;
};
} // namespace

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

template <typename KeyT>
static void assign(std::vector<PlanEntry<KeyT>> &entries,
                   const std::string &glob, const KeyT &key,
                   ArrayRef<StringAttr> axes) {
  auto entry = llvm::find_if(entries, [&](const PlanEntry<KeyT> &known) {
    return known.glob == glob;
  });
  if (entry == entries.end()) {
    entries.push_back({glob, {}, {}});
    entry = std::prev(entries.end());
  }
  if (entry->find(key))
    return;
  PlanAssignment<KeyT> assignment{key, {}, {}};
  for (StringAttr axis : axes)
    assignment.axes.push_back(axis.str());
  entry->assignments.push_back(std::move(assignment));
}

static void writeGroup(const Group &group, const Strategy &strategy,
                       const Names &names, const Plan &base, Plan &plan) {
  for (auto [key, axes] : llvm::zip(group.keys, strategy.axes)) {
    if (key.empty())
      continue;
    std::vector<std::string> open;
    for (const std::string &name : group.names)
      if (!findPlanEntry(base.operators, name, key))
        open.push_back(name);
    for (const std::string &glob : getGlobs(open, names.operators))
      assign(plan.operators, glob, key, axes);
  }
}

/// Returns the axes over which the uses of each parameter need it to be stored.
static llvm::StringMap<DenseSet<StringAttr>>
findWantedAxes(const OperatorSolution &solution, MeshRef mesh) {
  llvm::StringMap<DenseSet<StringAttr>> wanted;
  for (const Flow &flow : solution.program.flows) {
    if (flow.from.kind != Place::Variable || flow.to.kind != Place::Op)
      continue;
    const OpClass &user = solution.program.ops[flow.to.index];
    if (solution.program.groups[user.group].isUpdate)
      continue;
    ShardingAttr need =
        getNeed(user, solution.getStrategy(user.group), flow.to.number, mesh);
    for (VariableOp variable :
         solution.program.variables[flow.from.index].variables)
      for (const Axes &axes : getDimensions(need))
        wanted[variable.getSymName()].insert(axes.begin(), axes.end());
  }
  return wanted;
}

/// Returns the axes that the plan adds to each dimension.
static DimensionAxes
getAddedAxes(VariableOp variable, ShardingAttr layout,
             const llvm::StringMap<DenseSet<StringAttr>> &wanted) {
  StringRef name = variable.getSymName();
  if (std::optional<StateAttr> state = variable.getState())
    name = state->getParameter().getValue();
  auto uses = wanted.find(name);
  DimensionAxes added = getDimensions(layout);
  if (uses != wanted.end())
    for (Axes &axes : added)
      llvm::erase_if(
          axes, [&](StringAttr axis) { return uses->second.contains(axis); });
  return added;
}

Plan heddle::writeSolution(const OperatorSolution &solution, const Plan &base) {
  Plan plan = base;
  Names names(solution.program);
  for (auto [i, group] : llvm::enumerate(solution.program.groups))
    if (!group.names.empty())
      writeGroup(group, solution.getStrategy(i), names, base, plan);
  auto wanted = findWantedAxes(solution, solution.problem.mesh);
  for (auto [i, node] : llvm::enumerate(solution.problem.layouts)) {
    if (node.place.kind != Place::Variable)
      continue;
    const VariableClass &made = solution.program.variables[node.place.index];
    VariableOp variable = made.variables.front();
    if (variable.getStorageAttr())
      continue;
    DimensionAxes added = getAddedAxes(variable, solution.getLayout(i), wanted);
    std::vector<std::string> open;
    for (const std::string &name : getNames(made))
      if (!findPlanEntry(base.storage, name))
        open.push_back(name);
    for (auto [dim, axes] : llvm::enumerate(added))
      if (!axes.empty())
        for (const std::string &glob : getGlobs(open, names.variables))
          assign(plan.storage, glob, unsigned(dim), axes);
  }
  return plan;
}

//===----------------------------------------------------------------------===//
// Pins
//===----------------------------------------------------------------------===//

/// Returns whether named factors run over the op's first result.
static bool hasNamedResult(const OpClass &made) {
  return !made.rule.results.empty() &&
         llvm::any_of(made.rule.results.front(), [&](const auto &dim) {
           return llvm::any_of(dim, [&](unsigned factor) {
             return !made.rule.factors[factor].name.empty();
           });
         });
}

/// Returns the classes of ops whose first result a pin lays out: in each
/// function, the first op of a name whose result has named factors.
static std::vector<unsigned> findForwardClasses(const Program &program) {
  std::map<std::pair<Block *, StringRef>, Operation *> first;
  for (const OpClass &made : program.ops)
    if (hasNamedResult(made))
      for (Operation *op : made.ops) {
        Operation *&known = first[{op->getBlock(), getOpName(op)}];
        if (!known || op->isBeforeInBlock(known))
          known = op;
      }
  std::vector<unsigned> forward;
  for (auto [i, made] : llvm::enumerate(program.ops))
    if (hasNamedResult(made) && llvm::all_of(made.ops, [&](Operation *op) {
          return !getOpName(op).empty() &&
                 first[{op->getBlock(), getOpName(op)}] == op;
        }))
      forward.push_back(i);
  return forward;
}

/// Returns the layout in which the solution gives the first result of a class
/// to its uses, and whether a plan cannot name one of these uses. The layout is
/// null if uses need different ones.
static std::pair<ShardingAttr, bool>
getUsedLayout(const OperatorSolution &solution, unsigned index) {
  const Program &program = solution.program;
  ShardingAttr used;
  bool hasUnnamed = false;
  for (const Flow &flow : program.flows) {
    if (flow.from.kind != Place::Op || flow.from.index != index ||
        flow.from.number != 0 || flow.to.kind != Place::Op)
      continue;
    const OpClass &user = program.ops[flow.to.index];
    hasUnnamed |= program.groups[user.group].names.empty();
    used = getNeed(user, solution.getStrategy(user.group), flow.to.number,
                   solution.problem.mesh);
  }
  for (auto [i, node] : llvm::enumerate(solution.problem.layouts))
    if (node.place.kind == Place::Op && node.place.index == index &&
        node.place.number == 0)
      used = solution.getLayout(i);
  return {used, hasUnnamed};
}

bool heddle::writePins(const OperatorSolution &solution, const Plan &base,
                       Plan &plan) {
  const Program &program = solution.program;
  Names names(program);
  bool isAny = false;
  for (unsigned index : findForwardClasses(program)) {
    const OpClass &made = program.ops[index];
    auto [used, hasUnnamed] = getUsedLayout(solution, index);
    ShardingAttr own = getMade(made, solution.getStrategy(made.group), 0,
                               solution.problem.mesh);
    if (!used || !hasUnnamed || used.isPartial() ||
        used.getDims() == own.getDims())
      continue;
    // The layout as axes of the result's factors.
    std::vector<std::pair<std::string, Axes>> factors;
    bool isSayable = true;
    for (auto [dim, axes] :
         llvm::zip(made.rule.results.front(), getDimensions(used))) {
      if (axes.empty())
        continue;
      isSayable &=
          dim.size() == 1 && !made.rule.factors[dim.front()].name.empty();
      if (isSayable)
        factors.push_back({made.rule.factors[dim.front()].name, axes});
    }
    std::vector<std::string> open;
    for (Operation *op : made.ops)
      if (!findPlanEntry(base.pins, getOpName(op)))
        open.push_back(getOpName(op).str());
    if (!isSayable)
      continue;
    for (const std::string &glob : getGlobs(open, names.operators)) {
      isAny = true;
      if (factors.empty())
        plan.pins.push_back({glob, {}, {}});
      for (auto &[factor, axes] : factors)
        assign(plan.pins, glob, factor, axes);
    }
  }
  return isAny;
}

//===----------------------------------------------------------------------===//
// Explanation
//===----------------------------------------------------------------------===//

std::string heddle::formatStrategy(ArrayRef<std::string> keys,
                                   ArrayRef<Axes> axes) {
  std::vector<std::string> parts;
  for (auto [key, list] : llvm::zip(keys, axes))
    if (!list.empty() && !key.empty()) {
      std::vector<std::string> quoted;
      for (StringAttr axis : list)
        quoted.push_back("\"" + axis.str() + "\"");
      parts.push_back("\"" + key + "\": [" + llvm::join(quoted, ", ") + "]");
    }
  return "{" + llvm::join(parts, ", ") + "}";
}

namespace {
/// The costs of all strategies of one decision, or of the equal decisions of
/// several layers.
struct Alternatives {
  std::vector<std::string> names;
  bool isVariable = false;
  std::string chosen;
  /// By strategy, in the order of the problem after the chosen one. Strategies
  /// with the same text count once, with the least cost.
  llvm::MapVector<std::string, StrategyCost, std::map<std::string, unsigned>>
      costs;

  /// Returns a text that the decisions of several layers share if they chose
  /// the same.
  std::string getKey() const {
    std::set<std::string> forms;
    for (const std::string &name : names)
      forms.insert(generalizeNames(name));
    return (isVariable ? "v" : "o") + llvm::join(forms, " ") + chosen;
  }

  /// Adds the costs of other layers. Only strategies that all of them have
  /// stay.
  void append(const Alternatives &other) {
    llvm::append_range(names, other.names);
    costs.remove_if(
        [&](const auto &cost) { return !other.costs.count(cost.first); });
    for (auto &[text, cost] : costs) {
      const StrategyCost &more = other.costs.find(text)->second;
      cost.seconds += more.seconds;
      cost.bytes += more.bytes;
    }
  }

  OperatorChoice take(const Names &all) {
    OperatorChoice choice;
    choice.glob = llvm::join(
        getGlobs(names, isVariable ? all.variables : all.operators), ", ");
    choice.isVariable = isVariable;
    choice.count = int64_t(names.size());
    choice.names = std::move(names);
    for (const auto &[text, cost] : costs)
      if (text == chosen)
        choice.chosen = cost;
      else if (!choice.runnerUp || cost.seconds < choice.runnerUp->seconds)
        choice.runnerUp = cost;
    return choice;
  }
};
} // namespace

std::vector<OperatorChoice>
heddle::explainSolution(const OperatorSolution &solution) {
  const solver::Problem &problem = solution.problem.problem;
  std::vector<std::vector<const solver::Edge *>> edgesOf(problem.nodes.size());
  for (const solver::Edge &edge : problem.edges)
    for (uint32_t node : edge.nodes)
      edgesOf[node].push_back(&edge);
  auto getCost = [&](unsigned node, int32_t strategy) {
    solver::Cost cost = problem.nodes[node].costs[strategy];
    for (const solver::Edge *edge : edgesOf[node]) {
      size_t at = 0;
      for (uint32_t end : edge->nodes)
        at = at * problem.nodes[end].costs.size() +
             (end == node ? strategy : solution.assignment[end]);
      cost = solver::addCosts(cost, edge->costs[at]);
    }
    return cost;
  };
  std::vector<Alternatives> found;
  std::map<std::string, size_t> indexOf;
  auto add = [&](unsigned node, ArrayRef<std::string> names, bool isVariable,
                 function_ref<std::string(int32_t)> text) {
    Alternatives made;
    made.names.assign(names.begin(), names.end());
    made.isVariable = isVariable;
    int32_t chosen = solution.assignment[node];
    made.chosen = text(chosen);
    auto addCost = [&](int32_t strategy) {
      solver::Cost cost = getCost(node, strategy);
      if (cost >= solver::kInfiniteCost && strategy != chosen)
        return;
      StrategyCost all{text(strategy), double(cost) / kPicosecondsPerSecond,
                       problem.nodes[node].usages[strategy]};
      auto [known, isNew] = made.costs.try_emplace(all.strategy, all);
      if (!isNew && all.strategy != made.chosen &&
          all.seconds < known->second.seconds)
        known->second = all;
    };
    addCost(chosen);
    for (int32_t s = 0; s < int32_t(problem.nodes[node].costs.size()); ++s)
      if (s != chosen)
        addCost(s);
    auto [known, isNew] = indexOf.try_emplace(made.getKey(), found.size());
    if (isNew)
      found.push_back(std::move(made));
    else
      found[known->second].append(made);
  };
  Names names(solution.program);
  for (auto [i, group] : llvm::enumerate(solution.program.groups)) {
    if (group.names.empty())
      continue;
    const std::vector<Strategy> &all = solution.problem.strategies[i];
    add(solution.problem.getNode(i), group.names, /*isVariable=*/false,
        [&, &keys = group.keys](int32_t s) {
          return formatStrategy(keys, all[s].axes);
        });
  }
  for (auto [i, node] : llvm::enumerate(solution.problem.layouts)) {
    if (node.place.kind != Place::Variable)
      continue;
    const VariableClass &made = solution.program.variables[node.place.index];
    const std::vector<ShardingAttr> &layouts = node.layouts;
    add(solution.problem.getLayoutNode(i), getNames(made), /*isVariable=*/true,
        [&](int32_t s) {
          SmallVector<std::string> dims;
          for (int64_t d = 0; d < layouts[s].getRank(); ++d)
            dims.push_back(std::to_string(d));
          return formatStrategy(dims, getDimensions(layouts[s]));
        });
  }
  std::vector<OperatorChoice> choices;
  for (Alternatives &made : found)
    choices.push_back(made.take(names));
  llvm::sort(choices, [](const OperatorChoice &a, const OperatorChoice &b) {
    return a.chosen.seconds > b.chosen.seconds ||
           (a.chosen.seconds == b.chosen.seconds && a.glob < b.glob);
  });
  return choices;
}
