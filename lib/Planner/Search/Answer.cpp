//===- Answer.cpp - The report of a search --------------------------------===//

#include "../Blocks/FindBlockPlan.h"
#include "../Explain/ExplainPins.h"
#include "Search.h"
#include "heddle/PlanVerifier/Fingerprint.h"
#include "heddle/Simulate/Report.h"
#include <limits>

using namespace mlir;
using namespace heddle;

static const char *getName(OptimizerKind optimizer) {
  switch (optimizer) {
  case OptimizerKind::AdamW:
    return "adamw";
  case OptimizerKind::Adam:
    return "adam";
  case OptimizerKind::SGD:
    return "sgd";
  }
  llvm_unreachable("an optimizer");
}

/// Records what the plan was made for and what it is expected to need.
llvm::Error PlanSearch::recordPrediction(Plan &plan) {
  // The winner's plan was made for this program.
  llvm::Expected<ModuleOp> step = judges.first().getTrainingStep(
      {request.program.rows / report.winner.microBatches,
       request.program.layers},
      report.winner.microBatches);
  if (!step)
    return step.takeError();
  PlanPrediction &prediction = plan.prediction.emplace();
  Cluster cluster = orderKinds(request.cluster, report.winner.kinds);
  prediction.cluster = cluster.name;
  prediction.programHash = getFingerprint(*step);
  prediction.clusterHash = getFingerprint(cluster);
  prediction.rows = request.program.rows;
  prediction.microBatches = report.winner.microBatches;
  prediction.bf16 = request.training.bf16;
  prediction.sequence = request.program.sequence.value_or(0);
  prediction.optimizer = getName(request.training.optimizer);
  prediction.seconds = report.figures.seconds;
  prediction.bound = report.bound;
  prediction.gap = report.figures.seconds > 0
                       ? 1 - report.bound / report.figures.seconds
                       : 0;
  prediction.limit = this->memory;
  const DeviceMemoryPlan &memory = report.figures.memory;
  // A profile of blocks states neither waiting nor the parts of the memory.
  if (request.blocks) {
    prediction.all = memory.total();
    return llvm::Error::success();
  }
  prediction.exposed = report.figures.exposed;
  prediction.parameters = memory.parameters;
  prediction.optimizerState = memory.optimizerState;
  prediction.gradients = memory.gradients;
  prediction.counters = memory.counters;
  prediction.arena = memory.arena;
  prediction.argumentsAndResults = memory.argumentsAndResults;
  prediction.slots = memory.slots;
  return llvm::Error::success();
}

llvm::Expected<PlanReport> PlanSearch::answerBlocks() {
  if (llvm::Error problem = checkRequest())
    return std::move(problem);
  llvm::Expected<PlanReport> found = findBlockPlan(request);
  if (!found)
    return found;
  report = std::move(*found);
  if (report.plan)
    if (llvm::Error problem = recordPrediction(*report.plan))
      return std::move(problem);
  return std::move(report);
}

/// The most candidates of one answer that are compiled with all layers although
/// their programs of few layers slightly exceed the memory.
static constexpr int64_t kMostNear = 3;

/// Compiles candidates with all layers if they would be the best and their
/// programs of few layers exceed the memory only slightly. The scheduler fills
/// the memory, and so often makes them fit.
void PlanSearch::judgeNearMisses() {
  if (!request.compilesWinner)
    return;
  for (; numNear < kMostNear && !observer.isInterrupted(); ++numNear) {
    JudgedCandidate *next = nullptr;
    for (JudgedCandidate &judged : report.judged)
      if (!judged.fits && !judged.isWhole && judged.error.empty() &&
          judged.candidate.recomputeBytes == 0 &&
          double(judged.figures.getNeededMemory()) <=
              (1 + kNearMiss) * double(memory) &&
          judged.figures.seconds < getEnough() &&
          (!next || judged.figures.seconds < next->figures.seconds))
        next = &judged;
    if (!next)
      return;
    judgeWhole(*next);
    best = findBest(report.judged, [](size_t) { return true; });
  }
}

/// Compiles a candidate with all layers, and replaces its figures.
void PlanSearch::judgeWhole(JudgedCandidate &judged) {
  observer.compilesWhole(judged.candidate);
  llvm::Expected<Judgement> whole =
      judges.first().judge(judged.candidate, request.program.layers);
  judged.isWhole = true;
  judged.isUnknown = false;
  judged.error.clear();
  if (!whole) {
    judged.error = llvm::toString(whole.takeError());
    judged.fits = false;
    return;
  }
  judged.figures = whole->figures;
  judged.fits = whole->figures.getNeededMemory() <= memory;
}

/// The most memory, in limits, that a program of few layers may promise for a
/// program of all layers that fits.
static constexpr double kMayShrink = 2;

/// While nothing fits, compiles the candidates that need least memory with all
/// layers, at most `most` of them. The scheduler saves memory only if the
/// program exceeds the limit, which few layers may not do. So their
/// extrapolated memory may exceed that of all layers by far. Where few layers
/// do not stand for all, the estimate counts. If `statesLeast`, also compiles
/// the candidate that needs least if it cannot fit.
void PlanSearch::judgeSmallestWhole(int64_t most, bool statesLeast) {
  if (!request.compilesWinner)
    return;
  while (most-- > 0 && !getBest() && !observer.isInterrupted()) {
    const JudgedCandidate *smallest = getSmallest();
    JudgedCandidate *next = nullptr;
    double least = 0;
    for (const SearchEntry &entry : entries) {
      if (!entry.isJudged)
        continue;
      JudgedCandidate &judged = report.judged[entry.judged];
      if (judged.isWhole || (!judged.error.empty() && !judged.isUnknown))
        continue;
      double needed = judged.isUnknown
                          ? getMemory(entry)
                          : double(judged.figures.getNeededMemory());
      bool mayShrink = needed <= kMayShrink * double(memory) &&
                       getProvenMemory(entry) <= double(memory);
      bool isLeast = !smallest || &judged == smallest;
      if ((mayShrink || (statesLeast && isLeast)) &&
          (!next || needed < least)) {
        next = &judged;
        least = needed;
      }
    }
    if (!next)
      return;
    judgeWhole(*next);
    best = findBest(report.judged, [](size_t) { return true; });
  }
}

/// Compiles the best candidate with all layers. If that takes more time or
/// memory than its programs of few layers promised, the next candidate may be
/// better. Increases `numWhole` by the number of candidates that fit.
void PlanSearch::judgeWinner(int64_t &numWhole) {
  for (;;) {
    bool isEnough = numWhole >= kMostWhole;
    best = findBest(report.judged, [&](size_t i) {
      return !isEnough || report.judged[i].isWhole;
    });
    if (best < 0)
      return;
    JudgedCandidate &judged = report.judged[best];
    if (judged.isWhole || !request.compilesWinner || observer.isInterrupted())
      return;
    numWhole += fillMemory(size_t(best));
  }
}

llvm::Error PlanSearch::recordWinner() {
  if (best < 0)
    return llvm::Error::success();
  const JudgedCandidate &winner = *getBest();
  llvm::Expected<Plan> plan = judges.first().plan(winner.candidate);
  if (!plan)
    return plan.takeError();
  report.winner = winner.candidate;
  report.figures = winner.figures;
  report.divided = winner.bound;
  report.isExtrapolated = !winner.isWhole;
  report.bound = std::min(getBound(), report.figures.seconds);
  report.boundPredictions = countPredictions();
  report.plan = std::move(*plan);
  return recordPrediction(*report.plan);
}

const JudgedCandidate *PlanSearch::getSmallest() const {
  const JudgedCandidate *least = nullptr;
  for (const JudgedCandidate &judged : report.judged)
    if (judged.error.empty() &&
        (!least ||
         judged.figures.getNeededMemory() < least->figures.getNeededMemory()))
      least = &judged;
  return least;
}

/// Returns a lower bound of the bytes that the candidate needs, with any of its
/// operators in slices. Programs of few layers prove nothing.
double PlanSearch::getProvenMemory(const SearchEntry &entry) const {
  const Candidate &candidate = entry.candidate;
  if (entry.isJudged) {
    const JudgedCandidate &judged = report.judged[entry.judged];
    bool canSplit = candidate.mesh.pipeline == 1 && !candidate.decidesOperators;
    if (judged.isWhole && judged.error.empty() && !canSplit)
      return double(judged.figures.getNeededMemory());
  }
  // Bounds of memory know neither a stated storage nor the operators that are
  // decided one by one.
  if (request.stated || candidate.decidesOperators)
    return 0;
  return std::max(0.0, getLeastMemory(entry));
}

/// Returns a lower bound of the bytes that any candidate needs.
double PlanSearch::getMemoryBound() const {
  double bound = std::numeric_limits<double>::infinity();
  for (const SearchEntry &entry : entries)
    bound = std::min(bound, getProvenMemory(entry));
  return bound;
}

/// Finds the candidate that needs least memory, and its largest consumers.
llvm::Error PlanSearch::explainInfeasible() {
  const JudgedCandidate *least = getSmallest();
  if (!least) {
    for (const JudgedCandidate &judged : report.judged)
      return llvm::createStringError("no candidate can be compiled; " +
                                     judged.candidate.getName() + ": " +
                                     judged.error);
    bool hasPins = request.pins.hasAny() || request.stated;
    std::string reasons = hasPins ? explainPins(request, limits) : "";
    if (reasons.empty())
      reasons = explainDevices(request, limits);
    return llvm::createStringError(
        "no mesh of " + std::to_string(request.devices) +
        " devices divides the program" +
        (hasPins ? " and agrees with the pins" : "") +
        (reasons.empty() ? "" : ": " + reasons));
  }
  report.winner = least->candidate;
  report.figures = least->figures;
  report.memoryBound = int64_t(getMemoryBound());
  report.infeasiblePredictions = countInfeasiblePredictions();
  for (const MemoryPart &part : getMemoryParts(least->figures.memory))
    report.consumers.push_back({part.name.str(), part.bytes});
  llvm::sort(report.consumers, [](const auto &a, const auto &b) {
    return std::tie(b.second, a.first) < std::tie(a.second, b.first);
  });
  report.consumers.resize(3);
  return llvm::Error::success();
}

void PlanSearch::summarize() {
  int64_t tooLarge = 0, tooSlow = 0, unlikely = 0, slower = 0, idle = 0,
          covered = 0, untried = 0, near = 0, predicted = 0, predictedSlow = 0;
  const JudgedCandidate *winner = getBest();
  bool isEnough = isGoodEnough();
  for (const SearchEntry &entry : entries) {
    if (entry.isJudged)
      continue;
    if (getLeastMemory(entry) > double(memory))
      ++tooLarge;
    else if (isPredictedTooLarge(entry))
      ++predicted;
    else if (winner && entry.bounds.seconds >= winner->figures.seconds)
      ++(entry.counted >= winner->figures.seconds ? tooSlow : predictedSlow);
    else if (isEnough)
      ++(entry.counted >= getEnough() ? near : predictedSlow);
    else if (entry.isCovered)
      ++covered;
    else if (!isLikelyToFit(entry) &&
             !(winner && isPromising(entry, winner->figures.seconds)))
      ++unlikely;
    else if (winner && !mayBeat(entry, winner->figures.seconds))
      ++slower;
    else if (winner && !isWorthTrying(entry, winner->figures.seconds))
      ++idle;
    else
      ++untried;
  }
  auto add = [&](const char *reason, int64_t count) {
    if (count > 0)
      report.skipped.push_back({reason, count, /*isCandidate=*/true});
  };
  add("parameters, optimizer state and what the backward pass reads exceed the "
      "memory",
      tooLarge);
  add("the memory that their compiled stages predict exceeds the limit",
      predicted);
  add("the lower bound of the time is not below the best plan's", tooSlow);
  add("the lower bound of the time is within 1 % of the best plan's", near);
  add("the time that their compiled stages predict is at most 1 % below the "
      "best plan's",
      predictedSlow);
  add("a judged candidate lets the schedule choose among these sub-batches and "
      "recomputations",
      covered);
  add("the estimated memory exceeds the limit", unlikely);
  add("the estimated time exceeds the best plan's by more than its error",
      slower);
  add("the estimated time is not below the best plan's, and the last rounds "
      "found nothing better",
      idle);
  report.untried = untried;
  add(report.isInterrupted
          ? "not compiled: the search was interrupted"
          : "not compiled: the limit of work (--work) was reached, and the "
            "estimated time of others was less",
      untried);
}
