//===- ChooseRound.cpp - The candidates to compile next -------------------===//

#include "Search.h"
#include <limits>
#include <set>

using namespace heddle;

/// Candidates of one round. This number does not depend on the number of
/// threads, so the answer does not, either.
static constexpr size_t kRound = 4;
/// The most candidates of rounds that are judged for each one that is compiled.
/// Pipelines with equal stages are compiled once.
static constexpr int64_t kMostJudged = 4;
/// The rounds without a better plan after which estimates are trusted.
static constexpr int64_t kMostIdle = 2;

/// Returns whether an entry is worth a compilation if the best plan takes
/// `seconds`. An entry that a judged schedule covers is not, because the
/// schedule could have chosen it. While rounds find better plans, an entry is
/// worth it if it may be better within the error of its estimate. After some
/// rounds without a better plan, many judgements have corrected the estimates.
/// Then the entry must be expected to be better.
bool PlanSearch::isWorthTrying(const SearchEntry &entry, double seconds) const {
  return !entry.isCovered && mayBeat(entry, seconds) &&
         (idleRounds < kMostIdle || getSeconds(entry) < seconds);
}

/// Returns how many candidates may still be judged, at most those of a round.
size_t PlanSearch::getRoundSize() const {
  // The product of the limits could overflow.
  if (getNumJudged() / kMostJudged >= mostCompiled)
    return 0;
  return size_t(
      std::clamp<int64_t>(mostCompiled - getWork(), 0, int64_t(kRound)));
}

/// Returns the candidates that may be better than the best one, the most
/// promising ones first:
/// 1. those that are expected to fit and to be faster, by time;
/// 2. those that are expected to be faster and may fit within the error of
///    their estimate, by memory. Rounds without a better plan do not end this:
///    they tell little of the memory;
/// 3. those that are expected to fit and may be faster within the error.
/// If there is no best one, all that are expected to fit are returned, by time.
/// If there are none, either, all others are, by memory.
std::vector<SearchEntry *> PlanSearch::rankOpen() {
  double seconds = best < 0 ? std::numeric_limits<double>::infinity()
                            : getBest()->figures.seconds;
  struct Ranked {
    int group;
    double expected;
    SearchEntry *entry;
  };
  std::vector<Ranked> likely, others;
  for (SearchEntry &entry : entries) {
    if (entry.isJudged || !isWorthTrying(entry, seconds) || !hasRoom(entry))
      continue;
    bool isFaster = getSeconds(entry) < seconds;
    if (isLikelyToFit(entry))
      likely.push_back({isFaster ? 1 : 3, getSeconds(entry), &entry});
    else if (best < 0)
      others.push_back({2, getMemory(entry), &entry});
    else if (isPromising(entry, seconds))
      likely.push_back({2, getMemory(entry), &entry});
  }
  std::vector<Ranked> &ranked = likely.empty() ? others : likely;
  llvm::sort(ranked, [](const Ranked &a, const Ranked &b) {
    return std::tuple(a.group, a.expected, a.entry->index) <
           std::tuple(b.group, b.expected, b.entry->index);
  });
  std::vector<SearchEntry *> open;
  for (const Ranked &next : ranked)
    open.push_back(next.entry);
  return open;
}

/// Chooses the candidates to compile next. Half of them differ from the best
/// one in a single choice. The others are the most promising ones of meshes
/// that were not tried yet, then those that are unlike the chosen ones, and
/// then any.
std::vector<SearchEntry *> PlanSearch::chooseRound() {
  size_t most = getRoundSize();
  if (most == 0)
    return {};
  const JudgedCandidate *incumbent = getBest();
  std::vector<SearchEntry *> open = rankOpen();
  std::vector<SearchEntry *> round;
  auto take = [&](size_t upTo, auto accepts) {
    for (SearchEntry *entry : open)
      if (round.size() < upTo && !llvm::is_contained(round, entry) &&
          accepts(*entry))
        round.push_back(entry);
  };
  std::set<MeshSizes> tried;
  for (const JudgedCandidate &judged : report.judged)
    tried.insert(getSizes(judged.candidate));
  if (incumbent)
    take(most / 2, [&](const SearchEntry &entry) {
      return getDistance(entry.candidate, incumbent->candidate) == 1;
    });
  take(most, [&](const SearchEntry &entry) {
    return tried.insert(getSizes(entry.candidate)).second;
  });
  // A judgement corrects the estimates of similar candidates.
  take(most, [&](const SearchEntry &entry) {
    return llvm::none_of(round, [&](const SearchEntry *other) {
      return CorrectionKeyMaker::areSimilar(entry.keys.time, other->keys.time);
    });
  });
  take(most, [](const SearchEntry &) { return true; });
  return round;
}
