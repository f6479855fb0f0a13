//===- PlanOperators.cpp - The best plan of operators on one mesh ---------===//

#include "PlanWriter.h"
#include "heddle/Solver/Solve.h"

using namespace mlir;
using namespace heddle;

/// The solver stops when its cost is proven to be this close to the optimum.
static constexpr double kEnough = 1e-4;
/// With more axes, tables of reshardings take minutes.
static constexpr size_t kMostAxes = 3;
/// If a prediction exceeds the solution's cost by this fraction, pins are
/// tried.
static constexpr double kNoticeable = 0.005;
/// How often the problem is solved again with less memory.
static constexpr int kMostRounds = 8;

/// Checks that the base plan's mesh is that of the topology, and returns it.
static FailureOr<MeshRef> makeMesh(ModuleOp module, const Plan &base,
                                   const MeshTopology &topology) {
  MLIRContext *context = module.getContext();
  SmallVector<MeshAxisAttr> axes;
  SmallVector<int64_t> sizes;
  for (const PlanAxis &axis : base.mesh) {
    axes.push_back(MeshAxisAttr::get(
        context, StringAttr::get(context, axis.name), axis.size));
    sizes.push_back(axis.size);
  }
  if (ArrayRef<int64_t>(sizes) != topology.getAxisSizes())
    return module.emitError("expected the plan's mesh and the topology to have "
                            "the same axes");
  MeshRef mesh{FlatSymbolRefAttr::get(context, "mesh"),
               MeshAttr::get(context, axes)};
  if (getPlannedAxes(mesh).size() > kMostAxes)
    return module.emitError("expected a mesh of at most ")
           << kMostAxes << " axes with several devices beside \"pp\", got "
           << getPlannedAxes(mesh).size()
           << ": the number of layouts grows with the power of the axes; use "
              "fewer, larger ones";
  return mesh;
}

FailureOr<PlannedMesh> heddle::makePlannedMesh(ModuleOp module,
                                               const Plan &plan,
                                               const Cluster &cluster) {
  std::vector<int64_t> sizes;
  for (const PlanAxis &axis : plan.mesh)
    sizes.push_back(axis.size);
  llvm::Expected<MeshTopology> topology = MeshTopology::create(cluster, sizes);
  if (!topology)
    return module.emitError(llvm::toString(topology.takeError()));
  FailureOr<MeshRef> mesh = makeMesh(module, plan, *topology);
  if (failed(mesh))
    return failure();
  return PlannedMesh{*mesh, std::move(*topology)};
}

static llvm::Expected<solver::Solution>
solveProblem(const solver::Problem &problem, const OperatorsOptions &options) {
  solver::SolveOptions solve;
  solve.timeoutSeconds = 1e9; // the limit is work, so that plans repeat
  solve.workLimit = options.workLimit;
  solve.seed = options.seed;
  solve.threads = options.threads;
  solve.gap = kEnough;
  solve.stop = options.stop;
  return solver::solve(problem, solve);
}

namespace {
struct Decision {
  OperatorsResult result;
  /// The plan with pins. None if the plan needs no pins.
  std::optional<Plan> pinned;
};
} // namespace

/// Solves the problem under its memory limit, and makes the plan of the
/// solution.
static FailureOr<Decision> decide(ModuleOp module, const Program &program,
                                  const OperatorProblem &problem,
                                  const OperatorsOptions &options) {
  llvm::Expected<solver::Solution> solved =
      solveProblem(problem.problem, options);
  if (!solved)
    return module.emitError(llvm::toString(solved.takeError()));
  OperatorsResult result;
  result.isFeasible = solved->best.has_value();
  result.isOptimal = solved->why == solver::StopReason::Optimal ||
                     solved->why == solver::StopReason::Gap;
  result.lowerBound = double(solved->lowerBound) / kPicosecondsPerSecond;
  result.numNodes = int64_t(problem.problem.nodes.size());
  result.numEdges = int64_t(problem.problem.edges.size());
  result.work = solved->work;
  if (!solved->best && !solved->miss)
    return module.emitError("no plan for this mesh: ") << solved->explanation;
  const solver::Assignment &assignment =
      solved->best ? *solved->best : solved->miss->strategies;
  llvm::Expected<solver::Evaluation> evaluation =
      solver::evaluate(problem.problem, assignment);
  if (!evaluation)
    return module.emitError(llvm::toString(evaluation.takeError()));
  result.bytes = evaluation->peakUsage;
  result.seconds = double(evaluation->total) / kPicosecondsPerSecond;
  if (result.seconds > 0)
    result.gap =
        std::max(0.0, (result.seconds - result.lowerBound) / result.seconds);
  OperatorSolution solution{program, problem, assignment};
  result.plan = writeSolution(solution, options.base);
  result.choices = explainSolution(solution);
  Plan pinned = result.plan;
  if (writePins(solution, options.base, pinned))
    return Decision{std::move(result), std::move(pinned)};
  return Decision{std::move(result), std::nullopt};
}

/// Returns the least bytes of any assignment of the problem: the optimum of a
/// problem whose costs are its usages. Returns nullopt if not even one was
/// found within the work.
static FailureOr<std::optional<int64_t>>
findLeastBytes(ModuleOp module, const OperatorProblem &problem,
               const OperatorsOptions &options) {
  solver::Problem bytes = problem.problem;
  bytes.usageLimit.reset();
  for (solver::Node &node : bytes.nodes)
    for (auto [cost, usage] : llvm::zip(node.costs, node.usages))
      if (cost < solver::kInfiniteCost)
        cost = node.live.empty() ? 0 : usage;
  for (solver::Edge &edge : bytes.edges)
    for (solver::Cost &cost : edge.costs)
      if (cost < solver::kInfiniteCost)
        cost = 0;
  llvm::Expected<solver::Solution> solved = solveProblem(bytes, options);
  if (!solved)
    return module.emitError(llvm::toString(solved.takeError()));
  if (!solved->best)
    return std::optional<int64_t>();
  llvm::Expected<solver::Evaluation> evaluation =
      solver::evaluate(bytes, *solved->best);
  if (!evaluation)
    return module.emitError(llvm::toString(evaluation.takeError()));
  return std::optional<int64_t>(evaluation->peakUsage);
}

/// Predicts the plan of a decision. If the plan takes longer than the solution,
/// propagation has chosen other shardings than the solver, so pins may help.
static LogicalResult predict(ModuleOp module, const MeshTopology &topology,
                             const OperatorsOptions &options,
                             Decision &decision) {
  OperatorsResult &result = decision.result;
  FailureOr<StepPrediction> plain = predictStep(
      module, result.plan, topology, options.exposure, options.microBatches);
  if (failed(plain))
    return failure();
  result.prediction = *plain;
  if (!decision.pinned ||
      plain->getSeconds() <= result.seconds * (1 + kNoticeable))
    return success();
  FailureOr<StepPrediction> pinned =
      predictStep(module, *decision.pinned, topology, options.exposure,
                  options.microBatches);
  if (failed(pinned))
    return failure();
  if (pinned->getSeconds() < plain->getSeconds()) {
    result.plan = *decision.pinned;
    result.prediction = *pinned;
  }
  return success();
}

FailureOr<OperatorsResult>
heddle::planOperators(ModuleOp module, const MeshTopology &topology,
                      const OperatorsOptions &options) {
  FailureOr<MeshRef> mesh = makeMesh(module, options.base, topology);
  if (failed(mesh))
    return failure();
  ProgramOptions reading;
  reading.microBatches = options.microBatches;
  reading.plan = &options.base;
  // The ops that run again are known only after partitioning, so only the
  // prediction counts them.
  std::optional<RecomputeMode> recompute =
      options.base.recompute ? options.base.recompute
                             : getNamedSchedule(options.base.overlap).recompute;
  reading.keepsActivations =
      recompute.value_or(RecomputeMode::None) == RecomputeMode::None;
  FailureOr<Program> program = Program::create(module, reading);
  if (failed(program))
    return failure();
  Costs costs(*mesh, topology, options.exposure, options.known);
  FailureOr<OperatorProblem> problem =
      buildProblem(*program, costs, options, module);
  if (failed(problem))
    return failure();
  // If no plan fits, the answer is the fastest one of least bytes. So it does
  // not depend on the limit.
  auto decideLeast =
      [&](OperatorsResult nearest) -> FailureOr<OperatorsResult> {
    FailureOr<std::optional<int64_t>> bytes =
        findLeastBytes(module, *problem, options);
    if (failed(bytes))
      return failure();
    if (!*bytes)
      return std::move(nearest);
    problem->problem.usageLimit = **bytes;
    FailureOr<Decision> decision = decide(module, *program, *problem, options);
    if (failed(decision) ||
        (options.predicts &&
         failed(predict(module, topology, options, *decision))))
      return failure();
    OperatorsResult &result = decision->result;
    if (!result.isFeasible)
      return std::move(nearest);
    result.isFeasible =
        options.predicts &&
        result.prediction.memory.getTotal() <= *options.memoryLimit;
    return std::move(result);
  };
  // The problem leaves out some memory, such as the copies that reshardings
  // make. If the plan's prediction exceeds the limit, the problem is solved
  // again with a lower limit. If it then has no solution, the next limit lies
  // between the two.
  std::optional<OperatorsResult> nearest; // solved, but predicted to need more
  int64_t unsolvable = 0; // the largest limit without a solution
  for (int round = 0;; ++round) {
    FailureOr<Decision> decision = decide(module, *program, *problem, options);
    if (failed(decision))
      return failure();
    OperatorsResult &result = decision->result;
    if (!options.predicts)
      return result.isFeasible ? std::move(result)
                               : decideLeast(std::move(result));
    if (failed(predict(module, topology, options, *decision)))
      return failure();
    if (!options.memoryLimit)
      return std::move(result);
    if (result.isFeasible &&
        result.prediction.memory.getTotal() <= *options.memoryLimit)
      return std::move(result);
    if (result.isFeasible)
      nearest = std::move(result);
    else if (!nearest)
      return decideLeast(std::move(result));
    else
      unsolvable = *problem->problem.usageLimit;
    if (round == kMostRounds || nearest->bytes - unsolvable <= 1) {
      nearest->isFeasible = false;
      return decideLeast(std::move(*nearest));
    }
    int64_t excess =
        nearest->prediction.memory.getTotal() - *options.memoryLimit;
    problem->problem.usageLimit =
        unsolvable ? (nearest->bytes + unsolvable) / 2
                   : std::max<int64_t>(1, nearest->bytes - excess);
  }
}
