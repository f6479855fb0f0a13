//===- ChooseSchedule.cpp - What the schedule `auto` leaves open ----------===//

#include "heddle/Pipelines/ChooseSchedule.h"
#include "CostModels.h"
#include "heddle/Pipelines/RecomputeLimits.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Schedule/CutLayers.h"
#include "heddle/Simulate/Simulate.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace mlir;
using namespace heddle;

/// The numbers of sub-batches that are tried in turn, until two of them bring
/// no gain. If communication takes as long as computation, four sub-batches
/// leave about 6 % of it exposed. More sub-batches help if the forward pass
/// communicates for longer than it computes: only the backward pass of an
/// earlier sub-batch can hide this. But products become smaller, and may then
/// compute more slowly than the cost model predicts.
static constexpr int64_t kSubBatches[] = {2, 3, 4, 6};

/// Each chunk of an exchange is a collective of its own, with its latency.
static constexpr int64_t kMostExchangeChunks = 4;

/// A variant must be this much faster than a simpler one.
static constexpr double kLeastGain = 0.01;

/// A variant this near to its lower bound is good enough.
static constexpr double kNearBound = 1.02;

/// The layers of the two short models from which a deep one is predicted, and
/// the least number of layers of a deep one.
static constexpr int64_t kFewLayers = 2, kMoreLayers = 6, kManyLayers = 17;

/// A deep model is compiled whole if the ratio of its predicted memory to a
/// device's memory is between these bounds. Whether such a model fits depends
/// on the order of its ops.
static constexpr double kSurelyFits = 0.97, kNeverFits = 1.3;

namespace {
/// The settings of a schedule that the options and the plan state.
struct Stated {
  Overlap overlap = Overlap::None;
  std::optional<int64_t> subBatches;
  std::optional<RecomputeMode> recompute;
  bool hasRecomputeBytes = false;
  /// The plan treats all layers alike.
  bool hasEqualLayers = true;
  /// Unset: the chooser may scatter sums, or cut exchanges in chunks or in a
  /// ring.
  std::optional<bool> scatterSums = std::nullopt;
  std::optional<int64_t> exchangeChunks = std::nullopt;
  std::optional<bool> exchangeRing = std::nullopt;

  /// Returns whether the chooser finds the limit of optimal recomputation.
  bool leavesLimit() const {
    return recompute == RecomputeMode::Optimal && !hasRecomputeBytes;
  }
};

class Chooser {
public:
  Chooser(ModuleOp module, const CompileOptions &options, const Stated &stated)
      : module(module), options(options), stated(stated),
        layers(stated.hasEqualLayers ? countEqualLayers(module) : 0) {}

  std::optional<ScheduleChoice> choose();

private:
  /// Compiles and simulates a variant. Returns false if it does not compile.
  bool tryVariant(ScheduleVariant variant);
  /// Tries the variants of a number of sub-batches. Returns false if the first
  /// of them does not compile.
  bool tryParts(int64_t parts);
  /// Tries optimal recomputation with other limits, until the arena and the
  /// slots fill the memory that is left for them. A limit applies to tensors
  /// before ops are fused. These take more memory.
  void fillMemory(VariantPrediction first);
  /// Predicts a variant, from short models if it is deep enough.
  std::optional<VariantPrediction> predict(ScheduleVariant variant);
  /// Compiles and simulates a variant of the model with only `layers` of its
  /// equal layers. 0: with all of them.
  std::optional<VariantPrediction> compile(ScheduleVariant variant,
                                           int64_t layers);
  bool mayScatterSums() const;
  /// Returns the training step of the model with `layers` layers, or null.
  ModuleOp getStep(int64_t layers);

  ModuleOp module;
  const CompileOptions &options;
  Stated stated;
  int64_t layers;                                 ///< that are equal
  std::map<int64_t, OwningOpRef<ModuleOp>> steps; ///< by their layers
  ScheduleChoice choice;
};
} // namespace

static bool treatsLayersAlike(const Plan &plan) {
  auto namesNone = [](const auto &entries) {
    return llvm::none_of(
        entries, [](const auto &entry) { return namesLayers(entry.glob); });
  };
  return plan.numStages == 0 && namesNone(plan.operators) &&
         namesNone(plan.storage) && namesNone(plan.splits) &&
         namesNone(plan.pins) && namesNone(plan.priorities);
}

static Stated getStated(const CompileOptions &options) {
  Stated stated;
  if (!options.planText.empty()) {
    llvm::Expected<Plan> plan = parsePlan(options.planText, options.planPath);
    if (!plan) {
      llvm::consumeError(plan.takeError());
      return {};
    }
    stated = {plan->overlap, plan->subBatches, plan->recompute,
              plan->recomputeBytes.has_value(), treatsLayersAlike(*plan)};
    // `false` in the plan's text is stated, too.
    if (plan->getPosition("scatter_sums").line != 0)
      stated.scatterSums = plan->scatterSums;
    if (plan->getPosition("exchange_ring").line != 0)
      stated.exchangeRing = plan->exchangeRing;
    stated.exchangeChunks = plan->exchangeChunks;
  }
  stated.overlap = options.overlap.value_or(stated.overlap);
  if (options.subBatches != 0)
    stated.subBatches = options.subBatches;
  if (options.recompute)
    stated.recompute = options.recompute;
  stated.hasRecomputeBytes |= options.recomputeBytes != 0;
  stated.hasEqualLayers &= options.mesh.pipeline <= 1;
  if (options.scatterSums)
    stated.scatterSums = options.scatterSums;
  if (options.exchangeRing)
    stated.exchangeRing = options.exchangeRing;
  if (options.exchangeChunks)
    stated.exchangeChunks = options.exchangeChunks;
  return stated;
}

static bool leavesChoice(const CompileOptions &options, const Stated &stated) {
  return stated.overlap == Overlap::Auto && !options.cluster.isNone() &&
         (!stated.subBatches || !stated.recompute || stated.leavesLimit());
}

bool heddle::leavesChoice(const CompileOptions &options) {
  return ::leavesChoice(options, getStated(options));
}

/// Returns whether `a` should be taken in place of the simpler variant `b`.
static bool isBetter(const VariantPrediction &a, const VariantPrediction &b) {
  if (a.fits() != b.fits())
    return a.fits();
  if (a.canFit() != b.canFit())
    return a.canFit();
  if (a.canFit() && !a.fits())
    return a.bytes - a.capacity < b.bytes - b.capacity;
  return a.seconds < b.seconds * (1 - kLeastGain);
}

ModuleOp Chooser::getStep(int64_t layers) {
  auto [known, isNew] = steps.try_emplace(layers);
  if (!isNew)
    return known->second.get();
  OwningOpRef<ModuleOp> step(module.clone());
  if (layers > 0)
    keepLayers(*step, layers);
  if (succeeded(runPhases(*step, options, Phase::Autodiff)))
    known->second = std::move(step);
  return known->second.get();
}

/// Predicts a model of `layers` layers, linearly from the predictions for
/// kFewLayers (`few`) and kMoreLayers (`more`).
static VariantPrediction extrapolate(const VariantPrediction &few,
                                     const VariantPrediction &more,
                                     int64_t layers) {
  double steps =
      double(layers - kMoreLayers) / double(kMoreLayers - kFewLayers);
  auto extend = [&](auto member) {
    double last = double(more.*member);
    return last + steps * (last - double(few.*member));
  };
  VariantPrediction all = more;
  all.seconds = extend(&VariantPrediction::seconds);
  all.bound = extend(&VariantPrediction::bound);
  all.links = extend(&VariantPrediction::links);
  all.bytes = int64_t(extend(&VariantPrediction::bytes));
  all.fixed = int64_t(extend(&VariantPrediction::fixed));
  return all;
}

/// Returns the bytes of a device that recomputation cannot reduce.
static int64_t getFixedBytes(const DeviceMemoryPlan &plan) {
  return plan.total() - plan.arena - plan.slots;
}

static void setMemory(VariantPrediction &prediction,
                      const Simulation &simulation) {
  auto getExcess = [](const MemoryUse &memory) {
    int64_t fixed = getFixedBytes(memory.plan) - memory.capacity;
    return std::pair(std::max<int64_t>(fixed, 0),
                     memory.plan.total() - memory.capacity);
  };
  const MemoryUse &worst = *llvm::max_element(
      simulation.memories, [&](const MemoryUse &a, const MemoryUse &b) {
        return getExcess(a) < getExcess(b);
      });
  prediction.bytes = worst.plan.total();
  prediction.fixed = getFixedBytes(worst.plan);
  prediction.capacity = worst.capacity;
}

std::optional<VariantPrediction> Chooser::predict(ScheduleVariant variant) {
  // Drops warnings: compiling the chosen variant emits them again.
  ScopedDiagnosticHandler silent(module.getContext(),
                                 [](Diagnostic &) { return success(); });
  // The limit of optimal recomputation is for the whole model, so it would not
  // fit a short one.
  if (layers >= kManyLayers && variant.recompute != RecomputeMode::Optimal)
    if (auto few = compile(variant, kFewLayers))
      if (auto more = compile(variant, kMoreLayers)) {
        VariantPrediction all = extrapolate(*few, *more, layers);
        double part = double(all.bytes) / double(all.capacity);
        if (part < kSurelyFits || part > kNeverFits)
          return all;
      }
  return compile(variant, 0);
}

std::optional<VariantPrediction> Chooser::compile(ScheduleVariant variant,
                                                  int64_t layers) {
  llvm::Expected<const Cluster &> cluster = options.cluster.load();
  if (!cluster) {
    llvm::consumeError(cluster.takeError());
    return std::nullopt;
  }
  CompileOptions stating = options;
  stating.subBatches = variant.subBatches;
  stating.recompute = variant.recompute;
  stating.recomputeBytes = variant.recomputeBytes;
  if (variant.scattersSums)
    stating.scatterSums = true;
  if (variant.exchangesInRing)
    stating.exchangeRing = true;
  if (variant.exchangeChunks > 1)
    stating.exchangeChunks = variant.exchangeChunks;
  stating.remarkBytes = -1;
  stating.explainShardings = false;
  stating.choosesSchedule = false;
  stating.refusesTooLarge = false; // the chosen one is refused
  stating.verification = Verification::LastPhase;
  ModuleOp step = getStep(layers);
  if (!step)
    return std::nullopt;
  OwningOpRef<ModuleOp> copy(step.clone());
  if (failed(runPhases(*copy, stating, Phase::Executable)))
    return std::nullopt;
  llvm::Expected<std::vector<CallList>> lists = getEntry(*copy, "");
  if (!lists) {
    llvm::consumeError(lists.takeError());
    return std::nullopt;
  }
  std::unique_ptr<CostModel> model = makeCostModel(*copy, options, *cluster);
  FailureOr<Simulation> simulation = simulate(*copy, *lists, *cluster, *model);
  if (failed(simulation))
    return std::nullopt;
  VariantPrediction prediction;
  prediction.variant = variant;
  prediction.seconds = simulation->seconds;
  prediction.bound = simulation->bounds.compute;
  for (double link : simulation->bounds.links)
    prediction.links = std::max(prediction.links, link);
  prediction.bound = std::max(prediction.bound, prediction.links);
  setMemory(prediction, *simulation);
  return prediction;
}

bool Chooser::tryVariant(ScheduleVariant variant) {
  std::optional<VariantPrediction> prediction = predict(variant);
  if (!prediction)
    return false;
  if (choice.tried.empty() || isBetter(*prediction, choice.best))
    choice.best = *prediction;
  choice.tried.push_back(*prediction);
  return true;
}

bool Chooser::tryParts(int64_t parts) {
  if (!tryVariant({parts, stated.recompute.value_or(RecomputeMode::None)}))
    return false;
  const VariantPrediction first = choice.tried.back();
  if (stated.leavesLimit() && !first.fits() && first.canFit())
    fillMemory(first);
  if (stated.recompute || first.fits() || !first.canFit())
    return true;
  // Recomputation only adds to that time.
  if (choice.best.fits() &&
      first.seconds >= choice.best.seconds * (1 - kLeastGain))
    return true;
  for (RecomputeMode mode :
       {RecomputeMode::Communication, RecomputeMode::Layer})
    tryVariant({parts, mode});
  if (tryVariant({parts, RecomputeMode::Optimal}))
    fillMemory(choice.tried.back());
  return true;
}

void Chooser::fillMemory(VariantPrediction first) {
  int64_t room = first.capacity - first.fixed;
  if (room < 1)
    return;
  RecomputeLimits limits(room);
  while (limits.next(choice.tried.back().bytes - choice.tried.back().fixed))
    if (!tryVariant({first.variant.subBatches, RecomputeMode::Optimal,
                     limits.getLimit()}))
      return;
}

/// Returns whether the program may have sums that are not scattered yet. In a
/// standard plan, such sums come from tensor parallelism.
bool Chooser::mayScatterSums() const {
  if (stated.scatterSums)
    return false; // scattered already, or not wanted
  const DefaultMesh &mesh = options.mesh;
  return !options.planText.empty() || !isModel(module) ||
         (!mesh.sequence &&
          llvm::any_of(mesh.tensor, [](int64_t size) { return size > 1; }));
}

std::optional<ScheduleChoice> Chooser::choose() {
  int64_t first = stated.subBatches.value_or(1);
  if (!tryParts(first))
    return std::nullopt;
  // Only the limit of recomputation was open.
  if (stated.subBatches && stated.recompute)
    return choice;
  // Sub-batches together compute and send no less than the whole batch. If a
  // variant is already near this bound, there is nothing to gain.
  double bound = choice.tried.front().bound;
  int withoutGain = 0;
  for (int64_t parts : kSubBatches) {
    if (stated.subBatches || withoutGain == 2 ||
        (choice.best.fits() && choice.best.seconds <= bound * kNearBound))
      break;
    if (!tryParts(parts))
      break;
    withoutGain = choice.best.variant.subBatches == parts ? 0 : withoutGain + 1;
  }
  // A reduce-scatter and an all-gather send as much as an all-reduce.
  if (mayScatterSums() &&
      choice.best.seconds > choice.best.links * kNearBound) {
    ScheduleVariant scattering = choice.best.variant;
    scattering.scattersSums = true;
    tryVariant(scattering);
  }
  if (!options.mesh.sequence && !stated.scatterSums.value_or(false) &&
      !choice.best.variant.scattersSums)
    return choice;
  ScheduleVariant whole = choice.best.variant;
  for (int64_t chunks = 2;
       !stated.exchangeChunks && chunks <= kMostExchangeChunks; chunks *= 2) {
    ScheduleVariant chunked = choice.best.variant;
    chunked.exchangeChunks = chunks;
    tryVariant(chunked);
  }
  // A ring cuts exchanges along the rows. Chunks cut them along other
  // dimensions.
  if (!stated.exchangeRing) {
    whole.exchangesInRing = true;
    tryVariant(whole);
  }
  return choice;
}

std::optional<ScheduleChoice>
heddle::chooseSchedule(ModuleOp module, const CompileOptions &options) {
  return Chooser(module, options, getStated(options)).choose();
}

static std::string describe(const VariantPrediction &prediction) {
  std::string text =
      llvm::formatv("{0} sub-batch{1}, ", prediction.variant.subBatches,
                    prediction.variant.subBatches == 1 ? "" : "es")
          .str();
  if (prediction.variant.recompute == RecomputeMode::None)
    text += "nothing computed again";
  else
    text +=
        ("recompute " + stringifyRecomputeMode(prediction.variant.recompute))
            .str();
  if (prediction.variant.recomputeBytes != 0)
    text += llvm::formatv(" (recompute_bytes {0})",
                          prediction.variant.recomputeBytes)
                .str();
  if (prediction.variant.scattersSums)
    text += ", sums scattered";
  if (prediction.variant.exchangesInRing)
    text += ", exchanges in a ring";
  if (prediction.variant.exchangeChunks > 1)
    text += llvm::formatv(", exchanges in {0} chunks",
                          prediction.variant.exchangeChunks)
                .str();
  text += llvm::formatv(": {0:f3} ms, {1} bytes", prediction.seconds * 1e3,
                        prediction.bytes)
              .str();
  return text;
}

std::string heddle::describeBest(const ScheduleChoice &choice) {
  return ::describe(choice.best) +
         llvm::formatv(" of {0}", choice.best.capacity).str();
}

std::string heddle::describe(const ScheduleChoice &choice) {
  std::string text = describeBest(choice);
  for (const VariantPrediction &other : choice.tried)
    if (other.variant != choice.best.variant)
      text += "; " + ::describe(other);
  return text;
}
