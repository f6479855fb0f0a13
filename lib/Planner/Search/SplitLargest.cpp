//===- SplitLargest.cpp - Large operators in slices, for little memory ----===//

#include "Search.h"
#include <set>

using namespace heddle;

/// The numbers of slices that are tried.
static constexpr int64_t kSlices[] = {2, 4, 8};
/// The part of the needed memory that slices must save to be kept.
static constexpr double kWorthSlicing = 0.005;
/// If another plan fits, operators of a candidate are cut only if it needs at
/// most this many times the memory. Slices save what is alive of a few weights.
static constexpr double kMostExcess = 2;
/// The most times that further operators of a candidate are cut.
static constexpr int kMostCuts = 4;

/// Returns whether `a` is the better step towards a plan that fits: one that
/// fits before one that does not, then by time, or by the needed memory.
bool PlanSearch::isBetterSplit(const JudgedCandidate &a,
                               const JudgedCandidate &b) const {
  if (a.fits != b.fits)
    return a.fits;
  if (a.fits)
    return a.figures.seconds < b.figures.seconds;
  return a.figures.getNeededMemory() < b.figures.getNeededMemory();
}

/// Judges the candidates that were not judged yet, at most as many as are left.
/// Returns the indices in the report of those that could be compiled, the best
/// one first.
std::vector<size_t>
PlanSearch::judgeFurther(llvm::ArrayRef<Candidate> candidates) {
  std::vector<size_t> judged;
  size_t first = entries.size(), firstJudged = report.judged.size();
  for (const Candidate &candidate : candidates) {
    auto known =
        llvm::find_if(report.judged, [&](const JudgedCandidate &other) {
          return other.candidate.getKey() == candidate.getKey();
        });
    if (known != report.judged.end()) {
      judged.push_back(size_t(known - report.judged.begin()));
      continue;
    }
    if (splitsLeft == 0)
      break;
    llvm::Expected<SearchEntry> entry = makeEntry(candidate, entries.size());
    if (!entry) {
      llvm::consumeError(entry.takeError());
      continue;
    }
    // Slices add launches and sums, and what the backward pass reads is kept in
    // any case. So the bounds without slices hold. There is no estimate, so the
    // judgement corrects none.
    entry->bounds.estimate = entry->bounds.arena = 0;
    --splitsLeft;
    judged.push_back(firstJudged + entries.size() - first);
    entries.push_back(std::move(*entry));
  }
  report.candidates += int64_t(entries.size() - first);
  std::vector<SearchEntry *> round;
  for (size_t i = first; i < entries.size(); ++i)
    round.push_back(&entries[i]);
  if (!round.empty())
    judgeBeside(round);
  llvm::erase_if(judged,
                 [&](size_t i) { return !report.judged[i].error.empty(); });
  llvm::sort(judged, [&](size_t a, size_t b) {
    const JudgedCandidate &x = report.judged[a], &y = report.judged[b];
    return isBetterSplit(x, y) || (!isBetterSplit(y, x) && a < b);
  });
  return judged;
}

/// Judges a candidate in the order of its schedule and of its program. Then
/// lets more and more of its operators run in slices until it fits.
void PlanSearch::splitUntilFits(Candidate candidate) {
  closeSchedule(candidate);
  candidate.decidesOperators = false;
  std::vector<Candidate> orders = {candidate};
  // A schedule that hides communication gathers weights early. The order of the
  // program keeps fewer of them alive.
  if (!request.pins.overlap && candidate.overlap != Overlap::None)
    orders.emplace_back(candidate).overlap = Overlap::None;
  // Where nothing fits, either computing nothing again, so that no weight is
  // gathered again, or computing whole layers again may need least.
  if (!getBest() && !request.pins.recompute)
    for (RecomputeMode mode : {RecomputeMode::None, RecomputeMode::Layer}) {
      Candidate least = orders.back();
      least.subBatches = request.pins.subBatches.value_or(1);
      least.recompute = mode;
      least.recomputeBytes = 0;
      if (llvm::none_of(orders, [&](const Candidate &order) {
            return order.getKey() == least.getKey();
          }))
        orders.push_back(std::move(least));
    }
  std::vector<size_t> starts = judgeFurther(orders);
  // Kept and recomputed values take the place of different weights, so the
  // start that needs least memory whole may need more than the other in slices.
  // To keep all values is faster, so that comes first.
  for (bool keeps : {true, false})
    for (size_t start : starts)
      if (keeps == (report.judged[start].candidate.getSchedule().recompute ==
                    RecomputeMode::None)) {
        splitFurther(start);
        break;
      }
}

/// Lets more and more operators of a judged candidate run in slices until it
/// fits, or nothing is gained. The operator that owns most bytes alive at the
/// peak comes first, and with it all whose parameters are as large: they make
/// the next peaks.
void PlanSearch::splitFurther(size_t current) {
  std::set<std::string> useless;
  for (int cut = 0;
       cut < kMostCuts && splitsLeft > 0 && !observer.isInterrupted(); ++cut) {
    const JudgedCandidate whole = report.judged[current];
    if (whole.fits || whole.figures.seconds >= getEnough())
      return;
    if (getBest() &&
        double(whole.figures.getNeededMemory()) > kMostExcess * double(memory))
      return;
    llvm::Expected<std::vector<SplitOption>> options =
        judges.first().findSplits(whole.candidate);
    if (!options) {
      llvm::consumeError(options.takeError());
      return;
    }
    llvm::erase_if(*options, [&](const SplitOption &option) {
      return useless.count(option.glob);
    });
    const SplitOption *largest = nullptr;
    for (const PeakShare &share : whole.figures.peak)
      for (const SplitOption &option : *options)
        if (!largest && option.readers.count(share.glob))
          largest = &option;
    if (!largest)
      return;
    std::vector<Candidate> sliced;
    for (int64_t slices : kSlices) {
      Candidate &next = sliced.emplace_back(whole.candidate);
      for (const SplitOption &option : *options)
        if (option.bytes >= largest->bytes && option.size >= slices)
          next.splits.push_back({option.glob, option.factor, slices, {}, {}});
    }
    std::vector<size_t> next = judgeFurther(sliced);
    if (!next.empty() &&
        (report.judged[next[0]].fits ||
         double(report.judged[next[0]].figures.getNeededMemory()) <=
             (1 - kWorthSlicing) * double(whole.figures.getNeededMemory())))
      current = next[0];
    else
      useless.insert(largest->glob);
  }
}

/// Returns the candidate that is expected to need least memory among those that
/// are expected to be notably faster than the best one, but to need too much
/// memory. Considers the meshes without a pipeline that were not judged.
SearchEntry *PlanSearch::findUnjudgedMesh() {
  std::set<MeshSizes> judged;
  for (const JudgedCandidate &candidate : report.judged)
    judged.insert(getSizes(candidate.candidate));
  SearchEntry *smallest = nullptr;
  for (SearchEntry &entry : entries)
    if (!entry.isJudged && !entry.candidate.leavesSchedule &&
        entry.candidate.mesh.pipeline == 1 &&
        !judged.count(getSizes(entry.candidate)) && hasRoom(entry) &&
        !isLikelyToFit(entry) &&
        getMemory(entry) <= kMostExcess * double(memory) &&
        getSeconds(entry) < getEnough() &&
        (!smallest || getMemory(entry) < getMemory(*smallest)))
      smallest = &entry;
  return smallest;
}

/// Returns the judged candidate with the least value; null if none is accepted.
template <typename AcceptsT, typename ValueT>
static const JudgedCandidate *
findLeast(llvm::ArrayRef<JudgedCandidate> candidates, AcceptsT accepts,
          ValueT getValue) {
  const JudgedCandidate *least = nullptr;
  for (const JudgedCandidate &judged : candidates)
    if (accepts(judged) && (!least || getValue(judged) < getValue(*least)))
      least = &judged;
  return least;
}

/// Lets the operators that own the largest tensors run in slices, where memory
/// binds: if nothing fits; if a faster candidate does not fit, for which one of
/// a further mesh is judged; or if the best one computes values again, and not
/// as few as the memory allows.
void PlanSearch::splitLargest() {
  // A program without roles has no standard plan for several devices, so its
  // operators stay decided one by one.
  if (request.devices > 1 && !limits.hasRoles())
    return;
  auto canSplit = [](const JudgedCandidate &judged) {
    return judged.error.empty() && judged.candidate.mesh.pipeline == 1;
  };
  auto getNeeded = [](const JudgedCandidate &judged) {
    return judged.figures.getNeededMemory();
  };
  if (!getBest() && !triedSmallestSplits) {
    triedSmallestSplits = true;
    // The candidates that need least memory, of two meshes.
    std::set<MeshSizes> seen;
    for (int i = 0; i < 2 && !getBest(); ++i) {
      const JudgedCandidate *least = findLeast(
          report.judged,
          [&](const JudgedCandidate &judged) {
            return canSplit(judged) && !seen.count(getSizes(judged.candidate));
          },
          getNeeded);
      if (!least)
        break;
      seen.insert(getSizes(least->candidate));
      splitUntilFits(least->candidate);
    }
  }
  if (!getBest() || triedSplits)
    return;
  triedSplits = true;
  if (SearchEntry *unjudged =
          observer.isInterrupted() ? nullptr : findUnjudgedMesh())
    judgeBeside({unjudged});
  const JudgedCandidate *smallest = findLeast(
      report.judged,
      [&](const JudgedCandidate &judged) {
        return canSplit(judged) && !judged.fits &&
               judged.figures.seconds < getEnough();
      },
      getNeeded);
  if (smallest)
    splitUntilFits(smallest->candidate);
  if (canSplit(*getBest()) && !request.pins.recompute &&
      getBest()->candidate.getSchedule().recompute != RecomputeMode::None &&
      getBest()->candidate.recomputeBytes == 0) {
    Candidate keeping = getBest()->candidate;
    closeSchedule(keeping);
    keeping.recompute = RecomputeMode::None;
    keeping.recomputeBytes = 0;
    splitUntilFits(std::move(keeping));
  }
}
