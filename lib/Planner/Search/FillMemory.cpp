//===- FillMemory.cpp - Less recomputation, as much as the memory allows --===//

#include "Search.h"
#include "heddle/Pipelines/RecomputeLimits.h"

using namespace heddle;

static int64_t getArena(const DeviceMemoryPlan &memory) {
  return memory.arena + memory.slots;
}

/// If the best plan computes layers again, tries to keep as much as the memory
/// allows instead. What `optimal` recomputation keeps depends on the memory
/// that all layers leave, so only programs of all layers tell its time.
/// (Shallow models leave recomputation to the schedule, which does the same.)
void PlanSearch::fillMemory() {
  const JudgedCandidate *winner = getBest();
  if (!winner || !winner->isWhole || !request.compilesWinner ||
      request.pins.recompute)
    return;
  Candidate candidate = winner->candidate;
  if (candidate.mesh.pipeline > 1 || candidate.leavesSchedule ||
      candidate.decidesOperators || !candidate.splits.empty() ||
      (candidate.recompute != RecomputeMode::Layer &&
       candidate.recompute != RecomputeMode::Communication))
    return;
  const DeviceMemoryPlan &needed = winner->figures.memory;
  candidate.recompute = RecomputeMode::Optimal;
  RecomputeLimits limits(memory - (needed.total() - getArena(needed)));
  do {
    if (observer.isInterrupted())
      break;
    candidate.recomputeBytes = limits.getLimit();
    llvm::Expected<SearchEntry> entry = makeEntry(candidate, entries.size());
    if (!entry) {
      llvm::consumeError(entry.takeError());
      break;
    }
    entry->isJudged = true;
    entry->judged = report.judged.size();
    ++report.candidates;
    entries.push_back(std::move(*entry));
    JudgedCandidate &judged = report.judged.emplace_back();
    judged.candidate = candidate;
    judged.bound = entries.back().counted;
    judgeWhole(judged);
    if (!judged.error.empty())
      break;
  } while (limits.next(getArena(report.judged.back().figures.memory)));
  best = findBest(report.judged,
                  [&](size_t index) { return report.judged[index].isWhole; });
}
