//===- DecideBest.cpp - Operators of the best meshes, one by one ----------===//

#include "../Bounds/Extrapolation.h"
#include "Search.h"
#include <limits>
#include <set>

using namespace heddle;

/// The most meshes without a pipeline whose operators are decided one by one,
/// and how much longer than the best one they may take.
static constexpr size_t kMostDecided = 2;
static constexpr double kWorthDeciding = 1.15;
/// The part of a pipeline's step that has to wait for communication for its
/// operators, or those of a mesh without a pipeline, to be decided.
static constexpr double kWorthWaiting = 0.05;
/// The most times that a mesh's operators are decided, each for less memory.
static constexpr size_t kMostDecisions = 4;

void heddle::closeSchedule(Candidate &candidate) {
  ScheduleVariant variant = candidate.getSchedule();
  candidate.subBatches = variant.subBatches;
  candidate.recompute = variant.recompute;
  candidate.recomputeBytes = variant.recomputeBytes;
  candidate.schedule.reset();
  candidate.leavesSchedule = false;
}

/// Returns the candidate without a pipeline that is expected to be fastest,
/// among those that are expected to fit if there are any. Null unless the best
/// plan is a pipeline that waits for communication.
/// Over slow links, all standard plans of a mesh may take many times as long as
/// one whose operators avoid these links, so their times say nothing of it.
const SearchEntry *PlanSearch::findOtherMesh() const {
  const JudgedCandidate &found = *getBest();
  if (found.candidate.mesh.pipeline == 1 ||
      found.figures.exposed <= kWorthWaiting * found.figures.seconds)
    return nullptr;
  auto rank = [&](const SearchEntry &entry) {
    bool fits = entry.isJudged
                    ? report.judged[entry.judged].fits
                    : hasRoom(entry) && getMemory(entry) <= double(memory);
    return std::pair(!fits, getSeconds(entry));
  };
  const SearchEntry *fastest = nullptr;
  for (const SearchEntry &entry : entries)
    if (entry.candidate.mesh.pipeline == 1 &&
        !entry.candidate.decidesOperators &&
        entry.candidate.recomputeBytes == 0 &&
        !fillsMemory(request, entry.candidate) &&
        (!fastest || rank(entry) < rank(*fastest)))
      fastest = &entry;
  return fastest;
}

/// Decides the operators of the best meshes one by one, because the standard
/// plan splits them all alike. A mesh that is not the best one must wait for so
/// long that it could become the best without. Of pipelines, only the best
/// plan's operators are decided, and only if it waits for communication. Then
/// one mesh without a pipeline is decided in any case. Judges the plans that
/// may be better by more than simulations can resolve. If deciding gains
/// nothing for the best mesh without a pipeline, no further one is tried:
/// stages split equal layers alike, so a pipeline tells nothing of other
/// meshes.
void PlanSearch::decideOperatorsOfBest() {
  std::set<MeshSizes> seen;
  for (const SearchEntry &entry : entries)
    if (entry.candidate.decidesOperators)
      seen.insert(getSizes(entry.candidate));
  auto hasNoPipeline = [](const MeshSizes &sizes) {
    return std::get<0>(sizes) == 1;
  };
  bool pays = true;
  while (pays && size_t(llvm::count_if(seen, hasNoPipeline)) < kMostDecided) {
    int64_t next = findBest(report.judged, [&](size_t index) {
      const Candidate &candidate = report.judged[index].candidate;
      // A limit of recomputation becomes whole layers, which a pin may forbid.
      return !seen.count(getSizes(candidate)) && !candidate.decidesOperators &&
             (candidate.recomputeBytes == 0 || !request.pins.recompute) &&
             request.devices > candidate.mesh.pipeline &&
             (candidate.mesh.pipeline == 1 ||
              (int64_t(index) == best &&
               getBest()->figures.exposed >
                   kWorthWaiting * getBest()->figures.seconds)) &&
             report.judged[index].figures.seconds <
                 kWorthDeciding * getBest()->figures.seconds &&
             (int64_t(index) == best ||
              report.judged[index].figures.getComputing() < getEnough());
    });
    double standard = std::numeric_limits<double>::infinity();
    Candidate candidate;
    if (next >= 0) {
      standard = report.judged[next].figures.seconds;
      candidate = report.judged[next].candidate;
    } else if (const SearchEntry *other = findOtherMesh();
               other && llvm::none_of(seen, hasNoPipeline)) {
      candidate = other->candidate;
    } else {
      break;
    }
    seen.insert(getSizes(candidate));
    // Deciding the operators of a deep program beside a limit of recomputation
    // would compile many whole programs. An open schedule has few layers.
    if (candidate.recomputeBytes != 0) {
      candidate.recompute = RecomputeMode::Layer;
      candidate.recomputeBytes = 0;
    }
    closeSchedule(candidate);
    // Whether values between operators are split is decided, too.
    candidate.mesh.sequence = false;
    candidate.decidesOperators = true;
    std::optional<size_t> decided = judgeDecided(std::move(candidate));
    if (!decided)
      continue;
    const JudgedCandidate &judged = report.judged[*decided];
    if (judged.candidate.mesh.pipeline == 1)
      pays = !judged.error.empty() || judged.figures.seconds < standard;
  }
}

/// Judges a candidate whose operators are decided one by one, if it may be
/// better by more than simulations can resolve. Where devices repeat work to
/// avoid slow links, they keep more. So if the plan is better but needs too
/// much memory, it is judged with more micro-batches, too. If it fits but waits
/// too long, the memory may have forced it to. Then it is judged with layers
/// computed again, and with more micro-batches. Returns the index of the last
/// judgement, if any.
std::optional<size_t> PlanSearch::judgeDecided(Candidate candidate) {
  std::optional<size_t> last;
  for (size_t tries = 0; tries < kMostDecisions && !observer.isInterrupted();
       ++tries) {
    llvm::Expected<SearchEntry> entry = makeEntry(candidate, entries.size());
    if (!entry) {
      llvm::consumeError(entry.takeError());
      return last;
    }
    // Only the bound of the time holds for all plans of the mesh. The times of
    // compiled stages are those of standard plans.
    entry->bounds = {};
    entry->bounds.seconds = entry->counted;
    entry->stages.clear();
    ++report.candidates;
    entries.push_back(std::move(*entry));
    if (entries.back().bounds.seconds >= getEnough())
      return last;
    last = report.judged.size();
    judgeBeside({&entries.back()});
    if (!reduceMemory(candidate, *last))
      return last;
  }
  return last;
}

/// If few layers promised that a plan with decided operators fits, and all
/// layers need too much memory, decides its mesh once more for less memory.
/// Returns whether a plan was judged.
bool PlanSearch::decideWholeAgain() {
  for (size_t i = 0; i < report.judged.size(); ++i) {
    const JudgedCandidate &judged = report.judged[i];
    Candidate candidate = judged.candidate;
    if (!candidate.decidesOperators || !judged.isWhole || judged.fits ||
        !reduceMemory(candidate, i))
      continue;
    auto isDecided = [&](const SearchEntry &entry) {
      return entry.candidate.decidesOperators &&
             getSizes(entry.candidate) == getSizes(candidate) &&
             entry.candidate.microBatches >= candidate.microBatches;
    };
    if (llvm::none_of(entries, isDecided))
      return judgeDecided(std::move(candidate)).has_value();
  }
  return false;
}

/// Changes a candidate whose operators were decided, so that it needs less
/// memory. Returns false if the judgement tells that less memory would not
/// help, or if nothing is left to change.
bool PlanSearch::reduceMemory(Candidate &candidate, size_t index) const {
  const JudgedCandidate &judged = report.judged[index];
  const PlanFigures &figures = judged.figures;
  if (!judged.error.empty() || int64_t(index) == best)
    return false;
  bool isFaster = figures.seconds < getEnough();
  // If no device shared any value, each would need at most as many times the
  // memory as there are devices.
  bool mayBind = figures.getNeededMemory() > memory / request.devices;
  bool waits = figures.exposed > kWorthWaiting * figures.seconds;
  if (isFaster == judged.fits || (judged.fits && !(waits && mayBind)))
    return false;
  auto canRepeat = [&](const SearchEntry &entry) {
    return getSizes(entry.candidate) == getSizes(candidate) &&
           entry.candidate.recompute == RecomputeMode::Layer;
  };
  if (judged.fits && candidate.recompute != RecomputeMode::Layer &&
      llvm::any_of(entries, canRepeat)) {
    candidate.recompute = RecomputeMode::Layer;
    candidate.recomputeBytes = 0;
    return true;
  }
  std::optional<int64_t> next = findMoreMicroBatches(candidate);
  candidate.microBatches = next.value_or(candidate.microBatches);
  return next.has_value();
}

/// Returns the least larger number of micro-batches of a candidate's mesh.
std::optional<int64_t>
PlanSearch::findMoreMicroBatches(const Candidate &candidate) const {
  std::optional<int64_t> least;
  for (const SearchEntry &entry : entries)
    if (getSizes(entry.candidate) == getSizes(candidate) &&
        entry.candidate.microBatches > candidate.microBatches)
      least = std::min(least.value_or(entry.candidate.microBatches),
                       entry.candidate.microBatches);
  return least;
}
