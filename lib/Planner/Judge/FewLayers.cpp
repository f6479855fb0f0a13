//===- FewLayers.cpp - Deep programs judged by few layers -----------------===//

#include "JudgeTools.h"
#include "KindOrders.h"
#include "PinnedLayers.h"
#include "heddle/Simulate/Report.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace heddle;

/// The largest fraction of the arena of few layers that the scheduler is asked
/// to save. It is asked to save kSlack of the arena of all layers more than
/// needed, because arenas of few layers do not extrapolate exactly.
static constexpr double kMostSaved = 0.6, kSlack = 0.03;
/// How often the operators of few layers are decided again for less memory.
static constexpr int kMostLowerLimits = 3;
/// The arena of a program that keeps as much as its limit allows, as a multiple
/// of the live bytes before ops are fused: gathers that run ahead add to these.
static constexpr double kArenaToLive = 1.05;

char FewLayersError::ID = 0;

llvm::Error heddle::checkExtrapolated(const PlanFigures &figures) {
  for (const MemoryPart &part : getMemoryParts(figures.memory))
    if (part.bytes < 0)
      return llvm::make_error<FewLayersError>(
          "programs of few layers do not stand for all: by them, " +
              part.name.str() + " would take " + std::to_string(part.bytes) +
              " bytes",
          llvm::inconvertibleErrorCode());
  return llvm::Error::success();
}

int64_t heddle::getPeakOfLayer(const Simulation &simulation, StringRef layer) {
  auto serves = [&](const SimulatedCall &call) {
    rt::DeviceCallOpInterface op = call.op;
    ServesAttr served = op.getServes();
    return served.getKind() == DataKind::Activation &&
           llvm::any_of(served.getNames(), [&](StringAttr name) {
             return name.getValue().starts_with(layer);
           });
  };
  const MemoryUse &memory = simulation.memory;
  double start = std::numeric_limits<double>::infinity(), end = 0;
  for (const SimulatedCall &call : simulation.calls)
    if (call.list == memory.list && serves(call)) {
      start = std::min(start, call.start);
      end = std::max(end, call.end);
    }
  int64_t peak = 0;
  for (auto [time, bytes] : memory.curve) {
    if (time >= end)
      break;
    // The bytes in use at `start` count, too.
    peak = time <= start ? bytes : std::max(peak, bytes);
  }
  return start < end ? peak : 0;
}

/// Returns the figures of a program of `layers` layers. Computation and its
/// waits grow apart: with few layers, the waits may shrink from one program to
/// the next, but the time of a layer's computation does not. The arena of few
/// layers may be full at another time than that of all, so what is in use at
/// the last layer is extrapolated, too. Of the growth of the arena and that of
/// the bytes in use, the smaller one counts, because gaps do not grow with the
/// layers.
static llvm::Expected<PlanFigures>
extrapolate(const PlanFigures &few, const PlanFigures &more, int64_t layers) {
  PlanFigures figures = few;
  auto line = [&](auto &value, auto next) {
    value +=
        (next - value) * (layers - kFewLayers) / (kMoreLayers - kFewLayers);
  };
  DeviceMemoryPlan &memory = figures.memory;
  double computing = few.seconds - few.exposed;
  line(computing, more.seconds - more.exposed);
  line(figures.exposed, more.exposed);
  figures.exposed = std::max(figures.exposed, more.exposed);
  figures.seconds = computing + figures.exposed;
  // Both count the bytes of all layers.
  figures.liveBytes = std::max(few.liveBytes, more.liveBytes);
  line(memory.parameters, more.memory.parameters);
  line(memory.optimizerState, more.memory.optimizerState);
  line(memory.gradients, more.memory.gradients);
  line(memory.counters, more.memory.counters);
  line(memory.argumentsAndResults, more.memory.argumentsAndResults);
  line(memory.slots, more.memory.slots);
  line(memory.arena, more.memory.arena);
  line(figures.inUse, more.inUse);
  if (few.atLastLayer > 0 && more.atLastLayer > 0)
    line(figures.atLastLayer, more.atLastLayer);
  else
    figures.atLastLayer = 0;
  int64_t others = memory.total() - memory.arena;
  int64_t total = std::min(memory.total(),
                           more.memory.total() + figures.inUse - more.inUse);
  total = std::max(total, figures.atLastLayer);
  // The program of few layers may need more than the one of more layers.
  memory.arena =
      std::max({total - others, few.memory.arena, more.memory.arena});
  if (llvm::Error problem = checkExtrapolated(figures))
    return std::move(problem);
  return figures;
}

/// Adds the entries of `decided` to `entries`, and replaces those of the same
/// glob. What is said of the layer `pattern` alone holds for the `further`
/// layers, too, unless one of the globs `pinned` matches it. A layer is the
/// prefix of its names, such as "h.3.".
template <typename KeyT>
static void extendEntries(std::vector<PlanEntry<KeyT>> &entries,
                          ArrayRef<PlanEntry<KeyT>> decided, StringRef pattern,
                          ArrayRef<StringRef> pinned,
                          ArrayRef<std::string> further) {
  auto add = [&](PlanEntry<KeyT> entry) {
    llvm::erase_if(entries, [&](const PlanEntry<KeyT> &other) {
      return other.glob == entry.glob;
    });
    entries.push_back(std::move(entry));
  };
  for (const PlanEntry<KeyT> &entry : decided) {
    add(entry);
    if (pattern.empty() || !StringRef(entry.glob).starts_with(pattern) ||
        llvm::any_of(pinned, [&](StringRef glob) {
          return matchesGlob(glob, entry.glob);
        }))
      continue;
    for (const std::string &layer : further) {
      PlanEntry<KeyT> copy = entry;
      copy.glob.replace(0, pattern.size(), layer);
      add(std::move(copy));
    }
  }
}

llvm::Error Judge::extendDecisions(const Candidate &few, ProgramSize fewSize,
                                   const Candidate &more,
                                   ProgramSize moreSize) {
  llvm::Expected<ModuleOp> fewStep = getTrainingStep(fewSize, few.microBatches);
  if (!fewStep)
    return fewStep.takeError();
  llvm::Expected<ModuleOp> moreStep =
      getTrainingStep(moreSize, more.microBatches);
  if (!moreStep)
    return moreStep.takeError();
  llvm::Expected<Plan> decided = makePlan(*fewStep, few);
  if (!decided)
    return decided.takeError();
  Prices &price = getPrices(more);
  if (price.find(*moreStep, more))
    return llvm::Error::success();
  Candidate standard = more;
  standard.decidesOperators = false;
  llvm::Expected<Plan> plan = makePlan(*moreStep, standard);
  if (!plan)
    return plan.takeError();
  clearDecided(*plan, more, *moreStep);
  PinnedLayers fewLayers(*fewStep, request);
  ArrayRef<std::string> layers = fewLayers.getLayers();
  std::vector<std::string> moreLayers = getLayerPrefixes(*moreStep);
  ArrayRef<std::string> further = moreLayers;
  further = further.drop_front(std::min(layers.size(), further.size()));
  StringRef pattern = fewLayers.findFree();
  // Without a free layer, the further ones get what is not pinned of the last.
  if (pattern.empty() && !layers.empty())
    pattern = layers.back();
  std::vector<StringRef> pinned = fewLayers.getOwnGlobs(pattern);
  auto extend = [&](auto &entries, const auto &from) {
    extendEntries(entries, ArrayRef(from), pattern, pinned, further);
  };
  extend(plan->operators, decided->operators);
  extend(plan->storage, decided->storage);
  extend(plan->pins, decided->pins);
  // What the user states of a further layer takes precedence over the copies.
  complete(*plan, more, *moreStep);
  price.decided.push_back(
      {*moreStep, more.stageLayers, std::move(*plan), std::nullopt});
  return llvm::Error::success();
}

llvm::Expected<bool> Judge::lacksFreeLayer(const Candidate &candidate) {
  if (!extrapolates(candidate) || !candidate.decidesOperators)
    return false;
  llvm::Expected<ModuleOp> step = getTrainingStep(
      {request.program.rows / candidate.microBatches, kFewLayers},
      candidate.microBatches);
  if (!step)
    return step.takeError();
  PinnedLayers few(*step, request);
  return !few.getLayers().empty() &&
         (few.findFree().empty() || few.arePinnedFurther());
}

llvm::Expected<PlanFigures> Judge::extrapolate(const Candidate &candidate,
                                               double limit) {
  llvm::Expected<bool> lacksFree = lacksFreeLayer(candidate);
  if (!lacksFree)
    return lacksFree.takeError();
  if (!extrapolates(candidate) || *lacksFree) {
    llvm::Expected<Judgement> whole = judge(candidate, request.program.layers);
    if (!whole)
      return whole.takeError();
    return whole->figures;
  }
  llvm::Expected<PlanFigures> all = candidate.recomputeBytes > 0
                                        ? extrapolateMixture(candidate)
                                        : extrapolateOnce(candidate, limit);
  if (!all || !candidate.decidesOperators || all->seconds >= limit ||
      all->getNeededMemory() <= request.memory)
    return all;
  return decideWithin(candidate, std::move(*all), limit);
}

/// Equal layers change at the same price of a byte what they compute again. The
/// whole program mixes the choices below and above the limit. Programs of few
/// layers have one of the two in all layers.
llvm::Expected<PlanFigures>
Judge::extrapolateMixture(const Candidate &candidate) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  llvm::Expected<PlanFigures> fits = extrapolateOnce(candidate, kInfinity);
  if (!fits)
    return fits;
  exceedsLimit = true;
  auto reset = llvm::make_scope_exit([&] { exceedsLimit = false; });
  llvm::Expected<PlanFigures> exceeds = extrapolateOnce(candidate, kInfinity);
  if (!exceeds)
    return exceeds;
  // Without layers to compute again, there are no live bytes of all.
  if (fits->liveBytes == 0)
    return fits;
  // The bytes are equal if nothing is computed again, or all that can be.
  int64_t least = fits->liveBytes, most = exceeds->liveBytes;
  double part = least < most ? double(candidate.recomputeBytes - least) /
                                   double(most - least)
                             : 0;
  part = std::clamp(part, 0.0, 1.0);
  fits->seconds += part * (exceeds->seconds - fits->seconds);
  fits->exposed += part * (exceeds->exposed - fits->exposed);
  fits->liveBytes += int64_t(part * double(most - least));
  // The arenas of few layers have room to spare, and do not extrapolate.
  fits->memory.arena = int64_t(kArenaToLive * double(fits->liveBytes));
  return fits;
}

llvm::Expected<PlanFigures> Judge::decideWithin(const Candidate &candidate,
                                                PlanFigures all, double limit) {
  Prices &price = getPrices(candidate);
  PlanFigures last = all;
  for (int round = 0; round < kMostLowerLimits; ++round) {
    if (last.getNeededMemory() <= request.memory)
      break;
    // The few layers may take the part of the memory that they have now.
    double part = double(request.memory) / double(last.getNeededMemory());
    price.limit =
        int64_t(part * double(price.limit ? *price.limit : price.fewMemory));
    price.decided.clear();
    llvm::Expected<PlanFigures> next = extrapolateOnce(candidate, limit);
    if (!next) {
      llvm::consumeError(next.takeError());
      break;
    }
    last = std::move(*next);
    if (isBetter(last, all, request.memory))
      all = last;
  }
  return all;
}

llvm::Expected<PlanFigures> Judge::extrapolateOnce(const Candidate &candidate,
                                                   double limit) {
  llvm::Expected<Judgement> few = judge(candidate, kFewLayers);
  if (!few)
    return few.takeError();
  if (candidate.decidesOperators) {
    getPrices(candidate).fewMemory = few->figures.getNeededMemory();
    int64_t rows = request.program.rows / candidate.microBatches;
    if (llvm::Error problem = extendDecisions(candidate, {rows, kFewLayers},
                                              candidate, {rows, kMoreLayers}))
      return std::move(problem);
  }
  llvm::Expected<Judgement> more = judge(candidate, kMoreLayers);
  if (!more)
    return more.takeError();
  llvm::Expected<PlanFigures> ample =
      ::extrapolate(few->figures, more->figures, *request.program.layers);
  if (!ample || ample->seconds >= limit || candidate.recomputeBytes > 0)
    return ample;
  std::optional<PlanFigures> tight =
      extrapolateWithin(candidate, few->figures, more->figures, *ample);
  return tight ? *tight : *ample;
}

/// Judges the programs of few layers again, with less memory: each layer saves
/// an equal part of what all layers must save. The scheduler keeps live bytes
/// within the device's memory, but few layers leave so much memory that it need
/// not save anything. Returns nullopt if nothing has to be saved, or too much.
std::optional<PlanFigures> Judge::extrapolateWithin(const Candidate &candidate,
                                                    const PlanFigures &few,
                                                    const PlanFigures &more,
                                                    const PlanFigures &all) {
  int64_t excess = all.getNeededMemory() - request.memory;
  if (excess <= 0 || candidate.overlap != Overlap::Auto)
    return std::nullopt;
  double saved = (double(excess) + kSlack * double(all.memory.arena)) /
                 double(*request.program.layers);
  auto isTooMuch = [&](const PlanFigures &figures, int64_t layers) {
    return saved * double(layers) > kMostSaved * double(figures.memory.arena);
  };
  if (isTooMuch(few, kFewLayers) || isTooMuch(more, kMoreLayers))
    return std::nullopt;
  auto judgeTight = [&](const PlanFigures &figures, int64_t layers) {
    double memory = double(figures.memory.total()) - saved * double(layers);
    return judge(candidate, layers, int64_t(memory));
  };
  llvm::Expected<Judgement> tightFew = judgeTight(few, kFewLayers);
  llvm::Expected<Judgement> tightMore = judgeTight(more, kMoreLayers);
  if (!tightFew || !tightMore) {
    // The scheduler cannot keep the program within this memory.
    llvm::consumeError(tightFew.takeError());
    llvm::consumeError(tightMore.takeError());
    return std::nullopt;
  }
  llvm::Expected<PlanFigures> tight = ::extrapolate(
      tightFew->figures, tightMore->figures, *request.program.layers);
  if (!tight) {
    llvm::consumeError(tight.takeError());
    return std::nullopt;
  }
  if (tight->memory.total() > all.memory.total())
    return std::nullopt;
  return std::move(*tight);
}
