//===- Search.cpp - The search for the best plan --------------------------===//

#include "Search.h"
#include <limits>

using namespace mlir;
using namespace heddle;

/// A lower limit of memory may compile this fraction (one over the constant) of
/// the most candidates, in addition to those compiled so far.
static constexpr uint64_t kShareOfLowerLimit = 4;
/// The search ends when the gap between the best plan and the bound is this
/// small. Simulations cannot resolve smaller differences.
static constexpr double kEnough = 0.01;

//===----------------------------------------------------------------------===//
// Judging
//===----------------------------------------------------------------------===//

JudgeTask PlanSearch::makeTask(const SearchEntry &entry) const {
  JudgeTask task;
  task.candidate = entry.candidate;
  if (fillsMemory(request, entry.candidate))
    task.candidate.recomputeBytes = getFirstLimit(entry);
  // Scales to the update of as many layers for any number of stages.
  task.update = entry.bounds.update * double(entry.candidate.mesh.pipeline);
  // A program scheduled for less memory may be slightly faster by chance. A
  // candidate that is too slow now may be the best one for a lower limit.
  if (getBest() && !hasLowerLimits)
    task.limit = getBest()->figures.seconds * (1 + kEnough);
  return task;
}

/// Bounds all pipelines with these stages by the simulated times.
void PlanSearch::improveBounds(StringRef stages) {
  const StageModel *model = stages.empty() ? nullptr : judges.getStages(stages);
  if (!model || !improved.insert(stages).second)
    return;
  SimulatedPasses passes{model->getSeconds(*request.program.layers),
                         model->getSecondsOfLayer()};
  for (SearchEntry &entry : entries) {
    if (entry.stages != stages)
      continue;
    llvm::Expected<CandidateBounds> rated =
        bounds->rate(entry.candidate, &passes);
    if (rated)
      entry.bounds.seconds = rated->seconds;
    else
      llvm::consumeError(rated.takeError());
  }
}

/// Predicts the pipelines that may be better than the best plan and whose
/// stages have been compiled. Judges the best of them if it is better.
void PlanSearch::predictPipelines() {
  if (!getBest())
    return;
  SearchEntry *better = nullptr;
  for (SearchEntry &entry : entries) {
    if (entry.isJudged || entry.isPredicted || !hasRoom(entry) ||
        !improved.contains(entry.stages) ||
        entry.bounds.seconds >= getBest()->figures.seconds)
      continue;
    std::optional<PlanFigures> predicted =
        judges.predict(entry.stages, makeTask(entry));
    if (!predicted)
      continue;
    entry.isPredicted = true;
    entry.bounds.seconds = std::max(entry.bounds.seconds, predicted->seconds);
    entry.predictedMemory = double(predicted->getNeededMemory());
    if (getMemory(entry) <= double(memory) && getSeconds(entry) < getEnough() &&
        (!better || getSeconds(entry) < getSeconds(*better)))
      better = &entry;
  }
  if (better)
    judgeRound({better});
}

void PlanSearch::judgeRound(ArrayRef<SearchEntry *> round) {
  std::vector<JudgeTask> tasks;
  for (SearchEntry *entry : round)
    tasks.push_back(makeTask(*entry));
  std::vector<llvm::Expected<PlanFigures>> results = judges.judge(tasks);
  for (SearchEntry *entry : round)
    improveBounds(entry->stages);
  for (auto [entry, task, result] : llvm::zip(round, tasks, results)) {
    entry->isJudged = true;
    entry->judged = report.judged.size();
    JudgedCandidate &judged = report.judged.emplace_back();
    judged.candidate = task.candidate;
    judged.bound = entry->counted;
    judged.isWhole = !judges.first().extrapolates(judged.candidate);
    if (!result) {
      llvm::Error problem = result.takeError();
      judged.isUnknown = problem.isA<FewLayersError>();
      judged.error = llvm::toString(std::move(problem));
    } else {
      judged.figures = *result;
      // A program of few layers may be scheduled unlike one of many, and
      // promise less than the lower bound, or than the times of its compiled
      // stages.
      if (!judged.isWhole)
        judged.figures.seconds =
            std::max(judged.figures.seconds, entry->bounds.seconds);
      judged.figures.exposed =
          std::clamp(judged.figures.exposed, 0.0, judged.figures.seconds);
      judged.fits = result->getNeededMemory() <= memory;
      double beside = double(result->memory.total()) - entry->bounds.state;
      if (entry->bounds.arena > 0 && !entry->candidate.leavesSchedule &&
          !fillsMemory(request, entry->candidate))
        arenas.learn(entry->keys.memory, beside / entry->bounds.arena);
      if (entry->bounds.estimate > 0)
        times.learn(entry->keys.time, result->seconds / entry->bounds.estimate);
      if (judged.fits &&
          (best < 0 || judged.figures.seconds < getBest()->figures.seconds))
        best = int64_t(report.judged.size()) - 1;
    }
    PlanProgress progress;
    progress.candidates = report.candidates;
    progress.judged = int64_t(report.judged.size());
    progress.last = &judged;
    progress.best = getBest();
    progress.bound = getBound();
    observer.progress(progress);
    if (judged.candidate.leavesSchedule && judged.fits)
      cover(judged.candidate);
  }
  for (SearchEntry *entry : round)
    if (fillsMemory(request, entry->candidate))
      adaptLimit(*entry);
  predictPipelines();
}

/// Judges candidates that do not count for the limit of work. A round may have
/// such candidates itself.
void PlanSearch::judgeBeside(ArrayRef<SearchEntry *> round) {
  int64_t compiled = getNumStandard(), judged = getNumJudged();
  judgeRound(round);
  numBeside = judges.getNumCompiled() - compiled;
  numJudgedBeside = int64_t(report.judged.size()) - judged;
}

/// Marks the candidates that a judged schedule could have chosen.
void PlanSearch::cover(const Candidate &chosen) {
  for (SearchEntry &entry : entries)
    entry.isCovered |= !entry.candidate.leavesSchedule &&
                       getDistance(entry.candidate, chosen) == 1;
}

/// Returns the least time that a judged candidate takes or that any other one
/// could take.
double PlanSearch::getBound() const {
  double bound = best < 0 ? std::numeric_limits<double>::infinity()
                          : getBest()->figures.seconds;
  for (const SearchEntry &entry : entries)
    if (isOpen(entry) && hasRoom(entry))
      bound = std::min(bound, entry.bounds.seconds);
  for (const JudgedCandidate &judged : report.judged)
    if (judged.fits)
      bound = std::min(bound, judged.figures.seconds);
  return bound;
}

/// Returns the number of candidates that may be faster than the answer's bound
/// by their own lower bounds: programs of few layers predict otherwise.
int64_t PlanSearch::countPredictions() const {
  return llvm::count_if(entries,
                        [&](const SearchEntry &entry) {
                          return isOpen(entry) &&
                                 entry.counted < report.bound &&
                                 getLeastMemory(entry) <= double(memory);
                        }) +
         llvm::count_if(report.judged, [&](const JudgedCandidate &judged) {
           return judged.error.empty() && !judged.isWhole &&
                  judged.bound < report.bound;
         });
}

/// Returns the number of candidates of which only programs of few layers
/// predict that they do not fit.
int64_t PlanSearch::countInfeasiblePredictions() const {
  return llvm::count_if(entries, [&](const SearchEntry &entry) {
    if (getProvenMemory(entry) > double(memory))
      return false;
    if (!entry.isJudged)
      return isPredictedTooLarge(entry);
    const JudgedCandidate &judged = report.judged[entry.judged];
    return !judged.isWhole && (judged.error.empty() || judged.isUnknown);
  });
}

/// Returns the seconds below which a plan is notably better than the best one:
/// by more than simulations can resolve.
double PlanSearch::getEnough() const {
  return best < 0 ? std::numeric_limits<double>::infinity()
                  : getBest()->figures.seconds * (1 - kEnough);
}

/// Returns whether no untried candidate can be better by more than simulations
/// can resolve.
bool PlanSearch::isGoodEnough() const {
  return best >= 0 && getBound() >= getEnough();
}

//===----------------------------------------------------------------------===//
// The whole search
//===----------------------------------------------------------------------===//

/// Prepares another answer for less memory. Keeps the judgements.
void PlanSearch::lowerMemory(int64_t bytes) {
  memory = bytes;
  mostCompiled =
      getWork() + llvm::divideCeil(request.mostCompiled, kShareOfLowerLimit);
  for (JudgedCandidate &judged : report.judged)
    judged.fits =
        judged.error.empty() && judged.figures.getNeededMemory() <= memory;
  best = findBest(report.judged, [](size_t) { return true; });
  idleRounds = 0;
  numNear = 0;
  // A schedule was chosen, and recomputation limited, for the memory that there
  // was.
  for (SearchEntry &entry : entries) {
    entry.isCovered = false;
    if (entry.isJudged && fillsMemory(request, entry.candidate)) {
      entry.isJudged = false;
      ++report.candidates;
    }
  }
  report.plan.reset();
  report.consumers.clear();
  llvm::erase_if(report.skipped, [](const SkippedCandidates &skipped) {
    return skipped.isCandidate;
  });
}

/// Returns whether a candidate that was judged, with any limit of its
/// recomputation, needs too much memory.
bool PlanSearch::isTooLarge(const SearchEntry &entry) const {
  auto begin = report.judged.begin() + entry.judged;
  return begin->error.empty() &&
         std::none_of(
             begin, report.judged.end(), [&](const JudgedCandidate &judged) {
               Candidate candidate = judged.candidate;
               candidate.recomputeBytes = begin->candidate.recomputeBytes;
               return judged.fits &&
                      candidate.getKey() == begin->candidate.getKey();
             });
}

/// Judges candidates until none is left that may be better by more than
/// simulations can resolve. If something fits, those that turn out to need too
/// much memory count half, so that enough work is left for the others.
void PlanSearch::judgeRounds() {
  while (!observer.isInterrupted() && !isGoodEnough()) {
    std::vector<SearchEntry *> round = chooseRound();
    if (round.empty())
      return;
    double enough = getEnough();
    int64_t compiled = getNumStandard();
    judgeRound(round);
    if (getBest())
      numTooLarge +=
          std::min<int64_t>(getNumStandard() - compiled,
                            llvm::count_if(round, [&](SearchEntry *entry) {
                              return isTooLarge(*entry);
                            }));
    bool isBetter = !getBest() || getBest()->figures.seconds < enough;
    idleRounds = isBetter ? 0 : idleRounds + 1;
  }
}

/// If the limit of work is reached and nothing fits, judges one more candidate
/// that may fit. One with an open schedule comes first, because its schedule
/// looks for what fits. With more memory, faster candidates are expected to fit
/// and come first. If these miss the memory, more memory would otherwise make a
/// search of little work fail.
void PlanSearch::judgeBeyondWork() {
  if (observer.isInterrupted() || getBest() || getRoundSize() > 0)
    return;
  auto rank = [&](const SearchEntry &entry) {
    return std::tuple(!entry.candidate.leavesSchedule, getMemory(entry),
                      entry.index);
  };
  SearchEntry *next = nullptr;
  for (SearchEntry &entry : entries)
    if (!entry.isJudged && !entry.candidate.decidesOperators &&
        hasRoom(entry) && (!next || rank(entry) < rank(*next)))
      next = &entry;
  if (next)
    judgeBeside({next});
}

/// While nothing fits and work is left, judges candidates that may need less
/// memory than all judged ones.
void PlanSearch::judgeSmallest() {
  while (!observer.isInterrupted() && !getBest()) {
    const JudgedCandidate *smallest = getSmallest();
    std::vector<SearchEntry *> open;
    for (SearchEntry &entry : entries)
      if (!entry.isJudged && !entry.candidate.decidesOperators &&
          (!smallest ||
           getLeastMemory(entry) < double(smallest->figures.getNeededMemory())))
        open.push_back(&entry);
    llvm::sort(open, [&](SearchEntry *a, SearchEntry *b) {
      return std::pair(getMemory(*a), a->index) <
             std::pair(getMemory(*b), b->index);
    });
    open.resize(std::min(open.size(), getRoundSize()));
    if (open.empty())
      return;
    judgeRound(open);
  }
}

/// Judges the candidates that may be best, and makes the answer for the current
/// memory.
llvm::Error PlanSearch::answer(bool isFirst) {
  // Operators that are decided one by one may use an axis for anything. A
  // pinned mesh has the axes of a standard plan.
  const PlanPins &pins = request.pins;
  bool isMeshPinned = pins.data || pins.tensor || pins.context ||
                      pins.sequence || pins.attention || pins.zeroLevel;
  int64_t numWhole = 0;
  do {
    judgeRounds();
    if (isFirst && !observer.isInterrupted() && getBest() && !isMeshPinned)
      decideOperatorsOfBest();
    if (isFirst && getBest())
      splitLargest();
    judgeNearMisses();
    // If no candidate fits by its state, the one of least estimated memory is
    // compiled, only to say how much memory is missing.
    if (report.judged.empty() && !entries.empty()) {
      SearchEntry *least = &*llvm::min_element(entries, [&](auto &a, auto &b) {
        return getMemory(a) < getMemory(b);
      });
      judgeRound({least});
    }
    judgeWinner(numWhole);
    if (isFirst && !observer.isInterrupted() && decideWholeAgain()) {
      numWhole = std::min(numWhole, kMostWhole - 1);
      judgeWinner(numWhole);
    }
    // With all layers, the winner may take longer than with few, so that others
    // may be better again.
  } while (numWhole < kMostWhole && !observer.isInterrupted() &&
           !isGoodEnough() && !chooseRound().empty());
  if (!getBest() && isFirst) {
    judgeBeyondWork();
    judgeSmallest();
    judgeSmallestWhole(1, /*statesLeast=*/false);
    if (!getBest())
      splitLargest();
    judgeSmallestWhole(std::max(kMostWhole, mostCompiled - getWork()),
                       /*statesLeast=*/true);
    judgeWinner(numWhole);
  }
  if (llvm::Error problem = recordWinner())
    return problem;
  report.isInterrupted = observer.isInterrupted();
  if (!report.plan)
    if (llvm::Error problem = explainInfeasible())
      return problem;
  report.compiled = judges.getNumCompiled();
  report.isWorkUsedUp = !report.isInterrupted && getRoundSize() == 0 &&
                        llvm::any_of(entries, [&](const SearchEntry &entry) {
                          return !entry.isJudged && hasRoom(entry);
                        });
  summarize();
  return llvm::Error::success();
}

llvm::Error PlanSearch::run(NextMemory next, bool mayLower) {
  hasLowerLimits = mayLower;
  if (llvm::Error problem = checkRequest())
    return problem;
  if (llvm::Error problem = checkStated())
    return problem;
  if (llvm::Error problem = makeEntries())
    return problem;
  // Other numbers of devices may need less, so that the least memory of this
  // one is not searched for.
  if (mayLower && !entries.empty() && getMemoryBound() > double(memory)) {
    report.memoryBound = int64_t(getMemoryBound());
    next(report);
    return llvm::Error::success();
  }
  for (bool isFirst = true;; isFirst = false) {
    if (llvm::Error problem = answer(isFirst))
      return problem;
    std::optional<int64_t> lower = next(report);
    if (!lower || report.isInterrupted)
      return llvm::Error::success();
    lowerMemory(*lower);
  }
}

llvm::Error heddle::findPlans(const PlanRequest &request,
                              PlanObserver &observer, NextMemory next) {
  return PlanSearch(request, observer).run(next, /*mayLower=*/true);
}

llvm::Expected<PlanReport> heddle::findPlan(const PlanRequest &request,
                                            PlanObserver &observer) {
  if (request.blocks)
    return PlanSearch(request, observer).answerBlocks();
  PlanReport only;
  auto keep = [&](PlanReport &report) -> std::optional<int64_t> {
    only = std::move(report);
    return std::nullopt;
  };
  if (llvm::Error problem =
          PlanSearch(request, observer).run(keep, /*mayLower=*/false))
    return std::move(problem);
  return std::move(only);
}
