//===- Judge.cpp - Candidates compiled and simulated ----------------------===//

#include "Judge.h"
#include "../Bounds/ProgramCounts.h"
#include "../Complete/CompletePlan.h"
#include "JudgeTools.h"
#include "LayerStages.h"
#include "PinnedLayers.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Cost/CollectiveCost.h"
#include "heddle/PlanVerifier/PlanVerifier.h"
#include "heddle/Schedule/Passes.h"
#include "heddle/Simulate/Simulate.h"
#include <set>

using namespace mlir;
using namespace heddle;

Judge::Judge(const PlanRequest &request)
    : request(request),
      context(*request.program.dialects, MLIRContext::Threading::DISABLED),
      messages(std::make_unique<Messages>(&context)), cluster(request.cluster) {
  context.printOpOnDiagnostic(false);
}

Judge::~Judge() = default;

llvm::Expected<ModuleOp> Judge::getTrainingStep(ProgramSize size,
                                                int64_t microBatches) {
  auto [known, isNew] =
      steps.try_emplace(Key(size.rows, size.layers.value_or(0), microBatches));
  if (!isNew)
    return *known->second;
  messages->clear();
  FailureOr<OwningOpRef<ModuleOp>> module = request.program.make(context, size);
  CompileOptions options;
  options.training = request.training;
  options.training.microBatches = microBatches;
  options.verification = request.verification;
  if (failed(module) || failed(runPhases(**module, options, Phase::Autodiff))) {
    steps.erase(known);
    return messages->take();
  }
  known->second = std::move(*module);
  return *known->second;
}

/// Returns entries that keep the factors of tensor parallelism whole for the
/// operators of the pinned globs.
static std::vector<FactorEntry> makeReplicated(ModuleOp module,
                                               const PlanPins &pins) {
  std::vector<FactorEntry> entries;
  for (const std::string &glob : pins.replicated) {
    std::set<std::string> factors;
    bool hasOperator = false;
    module.walk([&](ShardingRuleOpInterface op) {
      if (!matchesGlob(glob, getOpName(op)))
        return;
      hasOperator = true;
      for (const Factor &factor : op.getShardingRule().factors)
        if (isTensorRole(factor.role) && !factor.name.empty())
          factors.insert(factor.name);
    });
    if (!hasOperator)
      continue; // a program of few layers may lack it
    FactorEntry entry{glob, {}, {}};
    for (const std::string &factor : factors)
      entry.assignments.push_back({factor, {}, {}});
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Leaves out the entries of these globs.
static void leaveOut(Plan &stated, ArrayRef<StringRef> globs) {
  auto leave = [&](auto &entries) {
    llvm::erase_if(entries, [&](const auto &entry) {
      return llvm::is_contained(globs, entry.glob);
    });
  };
  leave(stated.operators);
  leave(stated.storage);
  leave(stated.pins);
  leave(stated.splits);
  leave(stated.priorities);
}

/// Adds the user's pins and stated part to a candidate's plan. It may have been
/// completed before. If the module has few layers instead of all, leaves out
/// what the user states of a further layer alone, unless that is so for most
/// layers: each layer of the difference between two such programs counts for
/// many.
void Judge::complete(Plan &plan, const Candidate &candidate,
                     ModuleOp module) const {
  if (!request.stated && request.pins.replicated.empty())
    return;
  Plan stated = request.stated.value_or(Plan());
  std::vector<FactorEntry> pinned = makeReplicated(module, request.pins);
  PinnedLayers layers(module, request);
  if (int64_t(layers.getLayers().size()) < request.program.layers.value_or(0) &&
      !layers.arePinnedFurther()) {
    std::vector<StringRef> further = layers.getFurtherGlobs();
    leaveOut(stated, further);
    llvm::erase_if(pinned, [&](const FactorEntry &entry) {
      return llvm::is_contained(further, entry.glob);
    });
  }
  completePlan(plan, stated, std::move(pinned), module);
  if (!request.stated || candidate.mesh.pipeline > 1)
    return;
  // One device alone, which is measured, has no stages.
  plan.numStages = 0;
  plan.stages.clear();
  plan.scheduleTable.clear();
}

static void stateSchedule(Plan &plan, const ScheduleVariant &variant) {
  plan.subBatches = variant.subBatches;
  plan.recompute = variant.recompute;
  if (variant.recomputeBytes > 0)
    plan.recomputeBytes = variant.recomputeBytes;
  if (variant.exchangeChunks > 1)
    plan.exchangeChunks = variant.exchangeChunks;
  plan.exchangeRing = variant.exchangesInRing;
  plan.scatterSums = variant.scattersSums;
}

std::string Judge::getPricesKey(const Candidate &candidate) const {
  // The stages of a pipeline that is extrapolated are priced before its layers
  // and kinds of device are decided.
  Candidate priced = candidate;
  priced.stageLayers.clear();
  if (extrapolates(candidate))
    priced.kinds.clear();
  return priced.getKey();
}

llvm::Expected<Plan> Judge::makePlan(ModuleOp module,
                                     const Candidate &candidate) {
  llvm::Expected<Plan> plan =
      makeDefaultPlan(module, candidate.mesh, candidate.zeroLevel);
  if (!plan)
    return plan.takeError();
  plan->overlap = candidate.overlap;
  // States the mode even if nothing is computed again, because otherwise the
  // schedule would choose one.
  if (!candidate.leavesSchedule || candidate.schedule)
    stateSchedule(*plan, candidate.getSchedule());
  if (!candidate.stageLayers.empty()) {
    llvm::Expected<std::vector<std::string>> layers = findLayers(module);
    if (!layers)
      return layers.takeError();
    setStages(*plan, *layers, candidate.stageLayers);
  }
  complete(*plan, candidate, module);
  llvm::append_range(plan->splits, candidate.splits);
  if (!candidate.decidesOperators)
    return plan;
  // The prices of a pipeline of many layers are known already, by its stages.
  ProgramSize size{request.program.rows / candidate.microBatches,
                   request.program.layers};
  if (extrapolates(candidate))
    size.layers = kFewLayers;
  if (llvm::Error problem = findPrices(candidate, size, candidate.microBatches))
    return std::move(problem);
  Prices &price = getPrices(candidate);
  if (const Decided *known = price.find(module, candidate))
    return known->plan;
  llvm::Expected<Plan> decided =
      decideOperators(module, candidate, std::move(*plan));
  if (decided && price.isSettled)
    price.decided.push_back(
        {module, candidate.stageLayers, *decided, std::nullopt});
  return decided;
}

static CompileOptions makeOptions(const PlanRequest &request,
                                  const Candidate &candidate,
                                  const Plan &plan) {
  CompileOptions options;
  options.training = request.training;
  options.training.microBatches = candidate.microBatches;
  options.planText = writePlan(plan);
  options.planPath = "plan";
  return options;
}

llvm::Expected<Judge::Compiled> Judge::compile(const Candidate &candidate,
                                               ProgramSize size,
                                               std::optional<int64_t> memory) {
  llvm::Expected<ModuleOp> step = getTrainingStep(size, candidate.microBatches);
  if (!step)
    return step.takeError();
  llvm::Expected<Plan> plan = makePlan(*step, candidate);
  if (!plan)
    return plan.takeError();
  CompileOptions options = makeOptions(request, candidate, *plan);
  if (memory || !candidate.kinds.empty()) {
    Cluster other = orderKinds(request.cluster, candidate.kinds);
    other.device.memory = memory.value_or(other.device.memory);
    options.cluster = ClusterChoice(std::move(other));
  } else {
    options.cluster = cluster;
  }
  options.verification = request.verification;
  // A limit of recomputation is for all layers.
  options.choosesSchedule = size.layers == request.program.layers;
  if (candidate.recomputeBytes > 0 && !options.choosesSchedule) {
    options.recomputeDepth =
        double(*request.program.layers) / double(*size.layers);
    options.recomputeExceeds = exceedsLimit;
  }
  OwningOpRef<ModuleOp> module(step->clone());
  messages->clear();
  if (failed(runPhases(*module, options, Phase::Executable)))
    return messages->take();
  return Compiled{*step, std::move(*plan), std::move(module)};
}

llvm::Expected<ScheduleVariant>
Judge::chooseSchedule(const Candidate &candidate) {
  ProgramSize size{request.program.rows / candidate.microBatches,
                   request.program.layers};
  llvm::Expected<ModuleOp> step = getTrainingStep(size, candidate.microBatches);
  if (!step)
    return step.takeError();
  llvm::Expected<Plan> plan = makePlan(*step, candidate);
  if (!plan)
    return plan.takeError();
  plan->subBatches = request.pins.subBatches;
  plan->recompute = request.pins.recompute;
  CompileOptions options = makeOptions(request, candidate, *plan);
  options.cluster = ClusterChoice(request.cluster);
  // A rule that the stated part violates has no position in the text.
  if (const std::optional<Plan> &stated = request.stated) {
    if (stated->getPosition("exchange_ring").line != 0)
      options.exchangeRing = stated->exchangeRing;
    if (stated->getPosition("scatter_sums").line != 0)
      options.scatterSums = stated->scatterSums;
  }
  messages->clear();
  // An imported program lets the schedule predict a deep program from few of
  // its layers.
  FailureOr<OwningOpRef<ModuleOp>> module = request.program.make(context, size);
  if (failed(module))
    return messages->take();
  std::optional<ScheduleChoice> choice =
      heddle::chooseSchedule(**module, options);
  // If no variant was chosen, the compilation of the simplest one reports the
  // reason.
  if (!choice)
    return candidate.getSchedule();
  // The schedule prefers simple variants that are nearly as fast as the best.
  const VariantPrediction *best = &choice->best;
  for (const VariantPrediction &tried : choice->tried)
    if (tried.fits() && (!best->fits() || tried.seconds < best->seconds))
      best = &tried;
  return best->variant;
}

llvm::Expected<Simulation> Judge::simulateStep(ModuleOp module,
                                               const Cluster &cluster) {
  llvm::Expected<std::vector<CallList>> lists = getEntry(module, "");
  if (!lists)
    return lists.takeError();
  RooflineCostModel model(module, cluster);
  messages->clear();
  FailureOr<Simulation> simulation = simulate(module, *lists, cluster, model);
  if (failed(simulation))
    return messages->take();
  return std::move(*simulation);
}

PlanFigures Judge::getFigures(const Candidate &candidate, ModuleOp step,
                              const Simulation &simulation) const {
  PlanFigures figures;
  figures.seconds = simulation.seconds;
  figures.exposed = simulation.exposed;
  figures.memory = simulation.memory.plan;
  figures.inUse = simulation.memory.peak;
  if (std::vector<std::string> layers = getLayerPrefixes(step);
      !layers.empty() && candidate.mesh.pipeline == 1)
    figures.atLastLayer = getPeakOfLayer(simulation, layers.back());
  figures.mixed = simulation.mixed;
  figures.exposure = getExposure(candidate);
  figures.peak = getPeakShares(simulation);
  if (!request.cluster.groups.empty())
    figures.extraMemory =
        simulation.memory.capacity - request.cluster.device.memory;
  return figures;
}

llvm::Expected<Judgement> Judge::judge(const Candidate &candidate,
                                       std::optional<int64_t> layers,
                                       std::optional<int64_t> memory) {
  ProgramSize size{request.program.rows / candidate.microBatches, layers};
  if (candidate.decidesOperators && candidate.kinds.empty() && !memory) {
    // To decide the operators, this program may have been simulated.
    llvm::Expected<ModuleOp> step =
        getTrainingStep(size, candidate.microBatches);
    if (!step)
      return step.takeError();
    llvm::Expected<Plan> plan = makePlan(*step, candidate);
    if (!plan)
      return plan.takeError();
    const Decided *known = getPrices(candidate).find(*step, candidate);
    if (known && known->figures) {
      Judgement judgement{std::move(*plan), *known->figures};
      judgement.figures.exposure = getExposure(candidate);
      return judgement;
    }
  }
  llvm::Expected<Compiled> compiled = compile(candidate, size, memory);
  if (!compiled)
    return compiled.takeError();
  llvm::Expected<Simulation> simulation = simulateStep(
      *compiled->module, orderKinds(request.cluster, candidate.kinds));
  if (!simulation)
    return simulation.takeError();
  PlanFigures figures = getFigures(candidate, compiled->step, *simulation);
  if (auto live =
          (*compiled->module)->getAttrOfType<IntegerAttr>(kLiveBytesAttrName))
    figures.liveBytes = live.getInt();
  return Judgement{std::move(compiled->plan), std::move(figures)};
}

llvm::Expected<std::vector<SplitOption>>
Judge::findSplits(const Candidate &candidate) {
  ProgramSize size{request.program.rows / candidate.microBatches,
                   request.program.layers};
  if (extrapolates(candidate))
    size.layers = kFewLayers;
  llvm::Expected<ModuleOp> step = getTrainingStep(size, candidate.microBatches);
  if (!step)
    return step.takeError();
  llvm::Expected<Plan> plan = makePlan(*step, candidate);
  if (!plan)
    return plan.takeError();
  return findSplitOptions(*step, *plan);
}

/// The micro-batches of the steps of the two pipelines that stand for deeper
/// ones.
static constexpr int64_t kMicroBatches = 4;

bool Judge::extrapolates(const Candidate &candidate) const {
  return heddle::extrapolates(request, candidate);
}

llvm::Expected<Plan> Judge::plan(const Candidate &candidate) {
  ProgramSize size;
  size.rows = request.program.rows / candidate.microBatches;
  size.layers = request.program.layers;
  llvm::Expected<ModuleOp> step = getTrainingStep(size, candidate.microBatches);
  if (!step)
    return step.takeError();
  llvm::Expected<Plan> plan = makePlan(*step, candidate);
  if (!plan)
    return plan;
  // The program may have few layers instead of all.
  const Cluster cluster = orderKinds(request.cluster, candidate.kinds);
  PlanSetting setting;
  setting.cluster = &cluster;
  for (const PlanProblem &problem : verifyPlan(*step, *plan, setting))
    if (!problem.isWarning)
      return llvm::createStringError(candidate.getName() + ": " + problem.path +
                                     ": " + problem.message);
  return plan;
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

llvm::Expected<StageModel> Judge::measureStages(const Candidate &candidate) {
  Candidate pair = candidate;
  pair.mesh.pipeline = 2;
  pair.kinds.clear();
  pair.mesh.chunks = 0;
  pair.mesh.schedule = splitsBackward(candidate.mesh.schedule)
                           ? PipelineSchedule::ZBH1
                           : PipelineSchedule::OneFOneB;
  pair.microBatches = kMicroBatches;
  int64_t rows = request.program.rows / candidate.microBatches;
  // Simulates the pipelines on the weakest figures first, and then on each kind
  // of device.
  std::vector<Cluster> clusters = {request.cluster};
  clusters.front().groups.clear();
  for (const ClusterGroup &group : request.cluster.groups) {
    clusters.push_back(clusters.front());
    clusters.back().device = group.device;
  }
  if (candidate.decidesOperators) {
    int64_t layers = kInStage[0] * getStageFactor(candidate);
    pair.stageLayers = {layers, layers};
    if (llvm::Error problem =
            findPrices(pair, {rows, 2 * layers}, candidate.microBatches))
      return std::move(problem);
    prices.insert({getPricesKey(candidate), getPrices(pair).withoutPlans()});
  }
  std::vector<CompiledStages> few, more;
  for (auto [i, inStage] : llvm::enumerate(kInStage)) {
    int64_t layers = inStage * getStageFactor(candidate);
    pair.stageLayers = {layers, layers};
    llvm::Expected<Compiled> compiled = compile(pair, {rows, 2 * layers});
    if (!compiled)
      return compiled.takeError();
    if (i == 0 && candidate.decidesOperators) {
      int64_t next = kInStage[1] * getStageFactor(candidate);
      Candidate longer = pair;
      longer.stageLayers = {next, next};
      if (llvm::Error problem = extendDecisions(pair, {rows, 2 * layers},
                                                longer, {rows, 2 * next}))
        return std::move(problem);
    }
    messages->clear();
    for (const Cluster &cluster : clusters) {
      FailureOr<CompiledStages> measured =
          heddle::measureStages(*compiled->module, cluster, layers);
      if (failed(measured))
        return messages->take();
      (i == 0 ? few : more).push_back(*measured);
    }
  }
  StageModel model(few.front(), more.front());
  for (size_t kind = 1; kind < clusters.size(); ++kind)
    model.addKind(StageModel(few[kind], more[kind]));
  return model;
}

llvm::Expected<std::vector<double>> Judge::measureKernels(ProgramSize size) {
  Candidate alone;
  alone.mesh.statesData = true;
  alone.microBatches = 2;
  llvm::Expected<Compiled> compiled = compile(alone, size);
  if (!compiled)
    return compiled.takeError();
  ModuleOp module = *compiled->module;
  llvm::Expected<std::vector<CallList>> lists = getEntry(module, "");
  if (!lists)
    return lists.takeError();
  // The calls of a micro-batch, without the update.
  CallList micro = lists->front();
  micro.calls = {{micro.calls.front().program, 1}};
  Cluster best = request.cluster;
  best.device = best.getStrongest();
  best.groups.clear();
  RooflineCostModel model(module, best);
  messages->clear();
  FailureOr<Simulation> simulation = simulate(module, micro, best, model);
  if (failed(simulation))
    return messages->take();
  std::vector<double> kernels;
  for (const SimulatedCall &call : simulation->calls)
    kernels.push_back(call.end - call.start);
  return kernels;
}
