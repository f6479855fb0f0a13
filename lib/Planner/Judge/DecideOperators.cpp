//===- DecideOperators.cpp - Operators decided one by one -----------------===//

#include "JudgeTools.h"
#include "SimulatedExposure.h"
#include <limits>

using namespace mlir;
using namespace heddle;

/// The work of the solver on one program, in table entries.
static constexpr uint64_t kSolverWork = 5'000'000;
/// The most rounds of deciding and simulating for one candidate. After
/// kFewRounds, a candidate is given up if it takes this much longer than the
/// standard plan.
static constexpr int64_t kMostRounds = 5, kFewRounds = 2;
static constexpr double kHopeless = 1.05;

void Judge::clearDecided(Plan &plan, const Candidate &candidate,
                         ModuleOp module) const {
  plan.operators.clear();
  if (!request.pins.zeroLevel)
    plan.storage.clear();
  complete(plan, candidate, module);
}

llvm::Expected<Plan> Judge::decideOperators(ModuleOp module,
                                            const Candidate &candidate,
                                            Plan standard) {
  // Keeps the mesh, the schedule and the pinned operators of the standard plan.
  OperatorsOptions options;
  options.base = std::move(standard);
  clearDecided(options.base, candidate, module);
  options.decidesStorage = !request.pins.zeroLevel;
  // The problem has the layers of all stages. The judgement says whether the
  // stage that needs most memory fits.
  int64_t stages = candidate.mesh.pipeline;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  // The layers of a smaller program may take their part of the memory.
  Prices &price = getPrices(candidate);
  auto few = steps.find(Key(request.program.rows / candidate.microBatches,
                            kFewLayers, candidate.microBatches));
  bool isFew = few != steps.end() && *few->second == module;
  int64_t limit = isFew ? price.limit.value_or(request.memory) : request.memory;
  options.memoryLimit = std::min(limit, kMost / stages) * stages;
  options.threads = 1;
  options.workLimit = kSolverWork;
  options.microBatches = price.microBatches;
  options.exposure = price.factors;
  options.known = &knownCosts;
  std::vector<int64_t> sizes;
  for (const PlanAxis &axis : options.base.mesh)
    sizes.push_back(axis.size);
  llvm::Expected<MeshTopology> topology =
      MeshTopology::create(request.cluster, sizes);
  if (!topology)
    return topology.takeError();
  messages->clear();
  FailureOr<OperatorsResult> result = planOperators(module, *topology, options);
  if (failed(result))
    return messages->take();
  price.expected = result->prediction.exposedSeconds / double(stages);
  const Plan &plan = result->plan;
  if (plan.operators.empty() && plan.storage.empty() && plan.pins.empty())
    return llvm::createStringError(
        "a plan names the operators that it splits, and this program's have no "
        "names, or are best left whole; declare a heddle.mesh in the program "
        "and shardings of its arguments");
  return plan;
}

llvm::Error Judge::findPrices(const Candidate &candidate, ProgramSize size,
                              int64_t microBatches) {
  std::string name = getPricesKey(candidate);
  if (prices.count(name))
    return llvm::Error::success();
  const Cluster cluster = orderKinds(request.cluster, candidate.kinds);
  auto getExposure = [&](Compiled &compiled, const Simulation &simulation) {
    return getSimulatedExposure(*compiled.module, simulation, request.cluster);
  };
  llvm::Expected<ModuleOp> step = getTrainingStep(size, candidate.microBatches);
  if (!step)
    return step.takeError();
  // The first prices are those of the standard plan. A program without roles
  // has none: its communication counts in full.
  Prices next;
  next.microBatches = microBatches;
  double standardSeconds = std::numeric_limits<double>::infinity();
  Candidate standard = candidate;
  standard.decidesOperators = false;
  if (llvm::Expected<Compiled> compiled = compile(standard, size)) {
    llvm::Expected<Simulation> simulation =
        simulateStep(*compiled->module, cluster);
    if (!simulation)
      return simulation.takeError();
    FailureOr<Exposure> exposure = getExposure(*compiled, *simulation);
    if (failed(exposure))
      return messages->take();
    next.factors.approach(*exposure);
    standardSeconds = simulation->seconds;
  } else {
    llvm::consumeError(compiled.takeError());
  }
  std::optional<Prices> best;
  std::string last;
  int64_t rounds = 0;
  bool isFixed = false;
  auto isHopeless = [&] {
    return rounds >= kFewRounds &&
           best->prediction.step > kHopeless * standardSeconds;
  };
  while (rounds < kMostRounds && !isFixed && !isHopeless()) {
    // findPrices() has already decided the operators with these prices.
    prices[name] = next;
    llvm::Expected<Compiled> compiled = compile(candidate, size);
    if (!compiled) {
      prices.erase(name);
      return compiled.takeError();
    }
    llvm::Expected<Simulation> simulation =
        simulateStep(*compiled->module, cluster);
    if (!simulation) {
      prices.erase(name);
      return simulation.takeError();
    }
    ++rounds;
    Prices &price = prices[name];
    // The simulated step may have fewer micro-batches than the decided one.
    price.prediction.predicted =
        price.expected * double(candidate.microBatches) / double(microBatches);
    price.prediction.simulated = simulation->exposed;
    price.prediction.step = simulation->seconds;
    if (!best || simulation->seconds < best->prediction.step) {
      best = price;
      best->decided = {
          {*step, candidate.stageLayers, compiled->plan, std::nullopt}};
      if (candidate.kinds.empty())
        best->decided.front().figures =
            getFigures(candidate, *step, *simulation);
    }
    std::string text = writePlan(compiled->plan);
    isFixed = text == last;
    last = std::move(text);
    FailureOr<Exposure> exposure = getExposure(*compiled, *simulation);
    if (failed(exposure)) {
      prices.erase(name);
      return messages->take();
    }
    next.factors.approach(*exposure);
  }
  // Judging the same program need not decide its operators again.
  best->isSettled = true;
  best->prediction.rounds = rounds;
  best->prediction.isFixed = isFixed;
  prices[name] = *best;
  return llvm::Error::success();
}
