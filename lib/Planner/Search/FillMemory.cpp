//===- FillMemory.cpp - Less recomputation, as much as the memory allows --===//

#include "../Bounds/Extrapolation.h"
#include "Search.h"
#include "heddle/Pipelines/RecomputeLimits.h"
#include <limits>

using namespace heddle;

/// The part of the memory beside the variables that is the first limit. The
/// rest is for arguments, results, and gathers that run ahead.
static constexpr double kFirst = 0.93;

static int64_t getArena(const PlanFigures &figures) {
  return figures.memory.arena + figures.memory.slots;
}

/// Returns the bytes that arena and slots may take.
int64_t PlanSearch::getRoom(const PlanFigures &figures) const {
  return memory - (figures.getNeededMemory() - getArena(figures));
}

/// Adds a candidate that the caller judges. Returns nullptr if it has no
/// bounds.
SearchEntry *PlanSearch::addEntry(const Candidate &candidate) {
  llvm::Expected<SearchEntry> entry = makeEntry(candidate, entries.size());
  if (!entry) {
    llvm::consumeError(entry.takeError());
    return nullptr;
  }
  // There is no estimate, so the judgement corrects none.
  entry->bounds.estimate = entry->bounds.arena = 0;
  ++report.candidates;
  return &entries.emplace_back(std::move(*entry));
}

/// Returns the limit with which a candidate that fills the memory is judged
/// first.
int64_t PlanSearch::getFirstLimit(const SearchEntry &entry) const {
  return std::max<int64_t>(
      1, int64_t(kFirst * (double(memory) - entry.bounds.state)));
}

/// Judges a candidate that fills the memory with lower limits, until it fits.
/// They become further candidates.
void PlanSearch::adaptLimit(const SearchEntry &entry) {
  size_t index = entry.judged;
  Candidate candidate = report.judged[index].candidate;
  if (!report.judged[index].error.empty())
    return;
  int64_t room = getRoom(report.judged[index].figures);
  if (room < 1)
    return;
  RecomputeLimits limits(room, candidate.recomputeBytes);
  auto isOver = [&](const JudgedCandidate &judged) {
    // Above its limit, a program computes again all that it can.
    bool isLeast = judged.figures.liveBytes > judged.candidate.recomputeBytes;
    return judged.fits || isLeast || !judged.error.empty() ||
           observer.isInterrupted() || judged.figures.seconds >= getEnough() ||
           !limits.next(getArena(judged.figures));
  };
  while (!isOver(report.judged[index])) {
    candidate.recomputeBytes = limits.getLimit();
    SearchEntry *next = addEntry(candidate);
    if (!next)
      break;
    judgeBeside({next});
    index = next->judged;
  }
}

/// Compiles a candidate with all layers. If it keeps as much as the memory
/// allows, adapts this to the memory that all layers take, unless they are
/// slower than the best other plan. Other limits become further candidates.
/// Returns whether one of them fits.
bool PlanSearch::fillMemory(size_t index) {
  judgeWhole(report.judged[index]);
  bool fits = report.judged[index].fits;
  Candidate candidate = report.judged[index].candidate;
  bool isStated = request.stated && request.stated->recomputeBytes;
  if (candidate.recomputeBytes == 0 || candidate.leavesSchedule || isStated)
    return fits;
  int64_t other = findBest(report.judged, [&](size_t i) { return i != index; });
  double limit = other < 0 ? std::numeric_limits<double>::infinity()
                           : report.judged[other].figures.seconds;
  RecomputeLimits limits(
      std::max<int64_t>(1, getRoom(report.judged[index].figures)),
      candidate.recomputeBytes);
  while (report.judged[index].error.empty() && !observer.isInterrupted() &&
         report.judged[index].figures.seconds < limit &&
         limits.next(getArena(report.judged[index].figures))) {
    candidate.recomputeBytes = limits.getLimit();
    SearchEntry *entry = addEntry(candidate);
    if (!entry)
      break;
    index = report.judged.size();
    entry->isJudged = true;
    entry->judged = index;
    JudgedCandidate &judged = report.judged.emplace_back();
    ++numJudgedBeside;
    judged.candidate = candidate;
    judged.bound = entry->counted;
    judgeWhole(judged);
    fits |= judged.fits;
  }
  return fits;
}
