//===- ExplainOperators.cpp - The costs of a plan's choices ---------------===//

#include "PlanWriter.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Simulate/Report.h"
#include "heddle/Solver/Solve.h"
#include "llvm/ADT/MapVector.h"
#include <map>

using namespace mlir;
using namespace heddle;

/// The solver's work on the decisions that the plan leaves open.
static constexpr uint64_t kWork = 5'000'000;

/// Returns the plan without the keys of the schedule and the stages, because
/// the problem has whole batches and no stages.
static Plan leaveOutSchedule(Plan plan) {
  plan.numStages = 0;
  plan.stages.clear();
  plan.scheduleTable.clear();
  plan.splits.clear();
  plan.subBatches.reset();
  plan.subBatchSizes.clear();
  plan.overlap = Overlap::None;
  plan.prediction.reset();
  return plan;
}

/// States how every variable is stored. A variable that several ops need in
/// different shardings has one of them as its storage, which the problem does
/// not decide.
static void nameStorage(ModuleOp sharded, Plan &plan) {
  for (VariableOp variable : sharded.getOps<VariableOp>()) {
    ShardingAttr storage = variable.getStorageAttr();
    if (!storage)
      continue;
    StorageEntry entry{variable.getSymName().str(), {}, {}};
    for (auto [d, axes] : llvm::enumerate(getDimensions(storage))) {
      DimAssignment assignment{unsigned(d), {}, {}};
      for (StringAttr axis : axes)
        assignment.axes.push_back(axis.str());
      entry.assignments.push_back(std::move(assignment));
    }
    plan.storage.push_back(std::move(entry));
  }
}

/// Returns a plan that states the axes of every factor of every named operator,
/// as propagation completes `plan`, and how every variable is stored. Sets
/// `hasEmptyParts` if a factor has fewer elements than its axes have devices.
static FailureOr<Plan> nameAllAxes(ModuleOp module, const Plan &plan,
                                   const Cluster &cluster,
                                   bool &hasEmptyParts) {
  OwningOpRef<ModuleOp> copy = module.clone();
  CompileOptions options;
  options.planText = writePlan(plan);
  options.choosesSchedule = false;
  options.planPath = plan.source.empty() ? "plan" : plan.source;
  options.cluster = ClusterChoice(cluster);
  if (failed(runPhases(*copy, options, Phase::Sharded)))
    return failure();
  MeshAttr mesh = getMesh(*copy).mesh;
  Plan complete = plan;
  complete.operators.clear();
  complete.pins.clear();
  complete.priorities.clear();
  complete.mesh.clear();
  for (MeshAxisAttr axis : mesh.getAxes())
    complete.mesh.push_back({axis.getName().str(), axis.getSize()});
  complete.storage.clear();
  nameStorage(*copy, complete);
  llvm::StringMap<size_t> entryOf;
  WalkResult walked = copy->walk([&](ShardingRuleOpInterface op) {
    StringRef name = getOpName(op);
    if (name.empty())
      return WalkResult::advance();
    ShardingRule rule = getRule(op);
    FailureOr<FactorAxes> axes = readFactorAxes(op, rule, mesh);
    if (failed(axes))
      return WalkResult::interrupt();
    auto [known, isNew] = entryOf.try_emplace(name, complete.operators.size());
    if (isNew)
      complete.operators.push_back({name.str(), {}, {}});
    FactorEntry &entry = complete.operators[known->second];
    for (auto [factor, list] : llvm::zip(rule.factors, *axes)) {
      hasEmptyParts |= mesh.getSize(list) > factor.size;
      if (factor.name.empty() || entry.find(factor.name))
        continue;
      FactorAssignment assignment{factor.name, {}, {}};
      for (StringAttr axis : list)
        assignment.axes.push_back(axis.str());
      entry.assignments.push_back(std::move(assignment));
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  return complete;
}

/// Returns the index of an equal strategy.
static std::optional<int32_t> findStrategy(ArrayRef<Strategy> strategies,
                                           const Strategy &wanted) {
  for (auto [i, strategy] : llvm::enumerate(strategies))
    if (strategy.axes == wanted.axes && strategy.passed == wanted.passed &&
        strategy.linear == wanted.linear)
      return int32_t(i);
  return std::nullopt;
}

/// Translates a solution of one problem to another problem of the same program.
/// Returns nullopt if that problem lacks a strategy or a layout.
static std::optional<solver::Assignment>
translate(const OperatorSolution &solution, const OperatorProblem &to) {
  solver::Assignment assignment(to.problem.nodes.size());
  for (size_t group = 0; group < to.strategies.size(); ++group) {
    auto found =
        findStrategy(to.strategies[group], solution.getStrategy(group));
    if (!found)
      return std::nullopt;
    assignment[to.getNode(group)] = *found;
  }
  for (size_t i = 0; i < to.layouts.size(); ++i) {
    const auto *found = llvm::find(
        ArrayRef<ShardingAttr>(to.layouts[i].layouts), solution.getLayout(i));
    if (found == to.layouts[i].layouts.data() + to.layouts[i].layouts.size())
      return std::nullopt;
    assignment[to.getLayoutNode(i)] =
        int32_t(found - to.layouts[i].layouts.data());
  }
  return assignment;
}

FailureOr<std::vector<OperatorChoice>>
heddle::listSplits(ModuleOp module, const Plan &plan, const Cluster &cluster) {
  bool hasEmptyParts = false;
  FailureOr<Plan> complete =
      nameAllAxes(module, leaveOutSchedule(plan), cluster, hasEmptyParts);
  if (failed(complete))
    return failure();
  // Equal layers with the same split are one choice.
  llvm::MapVector<std::pair<std::string, std::string>, OperatorChoice,
                  std::map<std::pair<std::string, std::string>, unsigned>>
      choices;
  for (const FactorEntry &entry : complete->operators) {
    std::vector<std::string> keys;
    std::vector<Axes> axes;
    for (const FactorAssignment &assignment : entry.assignments) {
      keys.push_back(assignment.key);
      Axes &list = axes.emplace_back();
      for (const std::string &axis : assignment.axes)
        list.push_back(StringAttr::get(module.getContext(), axis));
    }
    std::string form = generalizeNames(entry.glob);
    std::string strategy = formatStrategy(keys, axes);
    OperatorChoice &choice = choices[{form, strategy}];
    choice.glob = form;
    choice.chosen.strategy = strategy;
    choice.names.push_back(entry.glob);
    choice.count = int64_t(choice.names.size());
    choice.hasCost = false;
  }
  std::vector<OperatorChoice> list;
  for (auto &[key, choice] : choices)
    list.push_back(std::move(choice));
  return list;
}

FailureOr<std::vector<OperatorChoice>>
heddle::explainOperators(ModuleOp module, const Plan &plan,
                         const Cluster &cluster, int64_t microBatches) {
  OperatorsOptions stated;
  FailureOr<Plan> complete = nameAllAxes(module, leaveOutSchedule(plan),
                                         cluster, stated.allowsEmptyParts);
  if (failed(complete))
    return failure();
  stated.base = *complete;
  stated.decidesStorage = false;
  stated.microBatches = microBatches;
  FailureOr<PlannedMesh> mesh = makePlannedMesh(module, *complete, cluster);
  if (failed(mesh))
    return failure();
  ProgramOptions reading;
  reading.microBatches = microBatches;
  reading.plan = &*complete;
  FailureOr<Program> program = Program::create(module, reading);
  if (failed(program))
    return failure();
  Exposure whole; // all of communication counts
  Costs costs(mesh->mesh, mesh->topology, whole);
  FailureOr<OperatorProblem> own =
      buildProblem(*program, costs, stated, module);
  if (failed(own))
    return failure();
  solver::SolveOptions solve;
  solve.timeoutSeconds = 1e9; // the limit is work, so that answers repeat
  solve.workLimit = kWork;
  solve.threads = 1;
  llvm::Expected<solver::Solution> solved = solver::solve(own->problem, solve);
  if (!solved)
    return module.emitError(llvm::toString(solved.takeError()));
  if (!solved->best)
    return module.emitError(
               "the planner's costs of these splits together are unknown: ")
           << solved->explanation;
  // The problem without the plan's entries has the alternative strategies.
  OperatorsOptions open = stated;
  open.base.operators.clear();
  open.base.storage.clear();
  open.decidesStorage = true;
  FailureOr<OperatorProblem> all = buildProblem(*program, costs, open, module);
  if (failed(all))
    return failure();
  OperatorSolution solution{*program, *own, *solved->best};
  if (std::optional<solver::Assignment> same = translate(solution, *all))
    return explainSolution({*program, *all, *same});
  // Without the alternatives, explains at least the plan's own costs.
  return explainSolution(solution);
}
