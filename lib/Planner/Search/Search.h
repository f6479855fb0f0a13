//===- Search.h - The state of a search for the best plan -------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_SEARCH_SEARCH_H
#define HEDDLE_LIB_PLANNER_SEARCH_SEARCH_H

#include "../Bounds/Bounds.h"
#include "../Bounds/Extrapolation.h"
#include "../Candidates/Candidates.h"
#include "../Judge/Judges.h"
#include "Corrections.h"
#include "heddle/Planner/Planner.h"
#include "llvm/ADT/StringSet.h"
#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace heddle {

/// The most candidates that one answer compiles with all layers and that fit.
/// One that fills the memory counts once, with all its limits.
constexpr int64_t kMostWhole = 3;

/// A candidate whose estimate or program of few layers exceeds the memory by
/// less than this fraction may still fit with all layers.
constexpr double kNearMiss = 0.1;

/// A candidate of the search space, and what is known of it.
struct SearchEntry {
  Candidate candidate;
  CandidateBounds bounds;
  size_t index = 0;        ///< in the order of enumeration, which decides ties
  std::string stages = {}; ///< Judges::getStagesName
  CandidateKeys keys = {};
  double counted = 0; ///< lower bound of the seconds, by counting alone
  bool isJudged = false;
  size_t judged = 0; ///< index into PlanReport::judged, if it is judged
  /// Whether a schedule that compared this candidate was judged.
  bool isCovered = false;
  /// Whether `bounds` has the predicted time of a pipeline whose stages have
  /// been compiled. To judge it repeats the prediction.
  bool isPredicted = false;
  double predictedMemory = 0; ///< bytes, if it is predicted
};

/// Fixes the sub-batches and the recomputation that the schedule has chosen.
/// How sums are exchanged is left out, because operators that are decided one
/// by one, or run in slices, have other sums.
void closeSchedule(Candidate &candidate);

/// The devices of pp, dp with its groups, cp and tp.
using MeshSizes = std::tuple<int64_t, std::vector<int64_t>, int64_t, int64_t>;

/// One search: what is known so far, and how it goes on.
class PlanSearch {
public:
  PlanSearch(const PlanRequest &request, PlanObserver &observer)
      : request(request), observer(observer), judges(request),
        keys(request.program.rows),
        extraMemory(request.cluster.getStrongest().memory -
                    request.cluster.device.memory),
        memory(request.memory), mostCompiled(request.mostCompiled),
        splitsLeft(request.mostCompiled) {}

  /// Makes the answers for the request's memory and for the lower limits that
  /// `next` returns. Unless `mayLower`, slow candidates are not compiled again
  /// for little memory.
  llvm::Error run(NextMemory next, bool mayLower);
  /// Answers a request that has a profile of blocks.
  llvm::Expected<PlanReport> answerBlocks();

private:
  llvm::Error checkRequest() const;
  llvm::Error checkStated();
  llvm::Expected<CountModel> countSmallPrograms();
  /// Returns an entry of the search. `index` is its place in the order of
  /// enumeration. The first form rates the candidate.
  llvm::Expected<SearchEntry> makeEntry(Candidate candidate, size_t index);
  SearchEntry makeEntry(Candidate candidate, size_t index,
                        const CandidateBounds &rated);
  llvm::Error makeEntries();
  void lowerMemory(int64_t bytes);
  llvm::Error answer(bool isFirst);
  size_t getRoundSize() const;
  /// Returns the number of compilations that `mostCompiled` limits, and that of
  /// the candidates that these judged.
  int64_t getNumStandard() const { return judges.getNumCompiled() - numBeside; }
  int64_t getNumJudged() const {
    return int64_t(report.judged.size()) - numJudgedBeside;
  }
  /// Returns how much of `mostCompiled` is used.
  int64_t getWork() const { return getNumStandard() - numTooLarge / 2; }
  std::vector<SearchEntry *> rankOpen();
  std::vector<SearchEntry *> chooseRound();
  bool isWorthTrying(const SearchEntry &entry, double seconds) const;
  bool isTooLarge(const SearchEntry &entry) const;
  void judgeRounds();
  void judgeRound(llvm::ArrayRef<SearchEntry *> round);
  void judgeBeside(llvm::ArrayRef<SearchEntry *> round);
  void cover(const Candidate &chosen);
  void improveBounds(llvm::StringRef stages);
  void predictPipelines();
  JudgeTask makeTask(const SearchEntry &entry) const;
  const SearchEntry *findOtherMesh() const;
  void decideOperatorsOfBest();
  std::optional<size_t> judgeDecided(Candidate candidate);
  bool decideWholeAgain();
  bool reduceMemory(Candidate &candidate, size_t index) const;
  std::optional<int64_t> findMoreMicroBatches(const Candidate &candidate) const;
  SearchEntry *findUnjudgedMesh();
  void splitLargest();
  void splitUntilFits(Candidate candidate);
  void splitFurther(size_t current);
  std::vector<size_t> judgeFurther(llvm::ArrayRef<Candidate> candidates);
  bool isBetterSplit(const JudgedCandidate &a, const JudgedCandidate &b) const;
  void judgeNearMisses();
  void judgeWhole(JudgedCandidate &judged);
  void judgeSmallestWhole(int64_t most, bool statesLeast);
  void judgeWinner(int64_t &numWhole);
  int64_t getRoom(const PlanFigures &figures) const;
  SearchEntry *addEntry(const Candidate &candidate);
  int64_t getFirstLimit(const SearchEntry &entry) const;
  void adaptLimit(const SearchEntry &entry);
  bool fillMemory(size_t index);
  llvm::Error recordWinner();
  void judgeBeyondWork();
  void judgeSmallest();
  llvm::Error explainInfeasible();
  llvm::Error recordPrediction(Plan &plan);
  double getBound() const;
  int64_t countPredictions() const;
  int64_t countInfeasiblePredictions() const;
  double getEnough() const;
  bool isGoodEnough() const;
  void summarize();

  /// Returns the bytes that the candidate is expected to need.
  double getMemory(const SearchEntry &entry) const {
    // An open schedule fills the memory, so the memory of other candidates does
    // not correct its estimate.
    if (entry.isPredicted)
      return entry.predictedMemory;
    if (entry.candidate.leavesSchedule || fillsMemory(request, entry.candidate))
      return entry.bounds.state + entry.bounds.arena;
    return entry.bounds.state +
           std::max(entry.bounds.kept,
                    arenas.get(entry.keys.memory).factor * entry.bounds.arena);
  }
  /// Returns whether the candidate is expected to fit, or to miss the memory by
  /// no more than its few layers may be wrong.
  bool isLikelyToFit(const SearchEntry &entry) const {
    return getMemory(entry) <= (1 + kNearMiss) * double(memory);
  }
  /// Returns whether the candidate is expected to take less than `seconds`, and
  /// may fit within the error of its estimate.
  bool isPromising(const SearchEntry &entry, double seconds) const {
    Correction known = arenas.get(entry.keys.memory);
    double error = known.error * known.factor * entry.bounds.arena;
    return getSeconds(entry) < seconds &&
           getMemory(entry) - error <= (1 + kNearMiss) * double(memory);
  }
  /// Returns a lower bound of the bytes that the smallest device must have.
  double getLeastMemory(const SearchEntry &entry) const {
    return entry.bounds.state + entry.bounds.kept - double(extraMemory);
  }
  double getProvenMemory(const SearchEntry &entry) const;
  double getMemoryBound() const;
  /// Returns whether the candidate may fit, by its bounds. A predicted memory
  /// that slightly exceeds the limit may fit with all layers.
  bool hasRoom(const SearchEntry &entry) const {
    return getLeastMemory(entry) <= double(memory) &&
           !isPredictedTooLarge(entry);
  }
  bool isPredictedTooLarge(const SearchEntry &entry) const {
    return entry.predictedMemory > double(memory) * (1 + kNearMiss);
  }
  /// Returns whether nothing is known of the candidate but its bounds.
  bool isOpen(const SearchEntry &entry) const {
    return !entry.isJudged || report.judged[entry.judged].isUnknown;
  }
  /// Returns the judged candidate that needs least memory; null if none could
  /// be compiled.
  const JudgedCandidate *getSmallest() const;
  /// Returns the seconds that the candidate is expected to take.
  double getSeconds(const SearchEntry &entry) const {
    if (entry.isPredicted)
      return entry.bounds.seconds;
    return std::max(entry.bounds.seconds,
                    entry.bounds.estimate * times.get(entry.keys.time).factor);
  }
  /// Returns whether the candidate may take less than `seconds`, by its bound
  /// and its estimate.
  bool mayBeat(const SearchEntry &entry, double seconds) const {
    if (entry.bounds.seconds >= seconds || entry.isPredicted)
      return entry.bounds.seconds < seconds;
    Correction known = times.get(entry.keys.time);
    return entry.bounds.estimate * known.factor * (1 - known.error) < seconds;
  }
  const JudgedCandidate *getBest() const {
    return best < 0 ? nullptr : &report.judged[best];
  }

  const PlanRequest &request;
  PlanObserver &observer;
  Judges judges;
  std::unique_ptr<BoundModel> bounds;
  SplitLimits limits;
  std::deque<SearchEntry> entries;
  CorrectionKeyMaker keys;
  /// Judgements over estimates.
  Corrections times{kTimeErrors}, arenas{kMemoryErrors};
  llvm::StringSet<> improved; ///< names of stages
  int64_t extraMemory = 0;    ///< of the largest device beyond the smallest
  /// The limits of the current answer, which lowerMemory() changes.
  int64_t memory = 0, mostCompiled = 0;
  bool hasLowerLimits = false;
  /// The candidates with operators in slices that may still be judged.
  int64_t splitsLeft = 0;
  /// The compilations that `mostCompiled` does not limit: candidates with
  /// operators decided one by one or in slices, that of findUnjudgedMesh(),
  /// further limits of recomputation, and that of judgeBeyondWork(). Then the
  /// candidates that were judged so.
  int64_t numBeside = 0, numJudgedBeside = 0;
  /// The compilations of rounds for candidates that need too much memory, since
  /// the first one that fits.
  int64_t numTooLarge = 0;
  /// The near misses that the current answer has compiled with all layers.
  int64_t numNear = 0;
  /// Whether slices were tried because nothing fits, and to find a faster plan.
  bool triedSmallestSplits = false, triedSplits = false;
  /// The number of rounds since the best plan last became better by more than
  /// simulations can resolve.
  int64_t idleRounds = 0;
  PlanReport report;
  int64_t best = -1; ///< index into report.judged
};

inline MeshSizes getSizes(const Candidate &candidate) {
  return {candidate.mesh.pipeline, candidate.mesh.data, candidate.mesh.context,
          candidate.mesh.tensor.front()};
}

/// Returns the best of the judged candidates that `accepts` allows; -1 if there
/// is none.
template <typename AcceptsT>
int64_t findBest(llvm::ArrayRef<JudgedCandidate> judged, AcceptsT accepts) {
  int64_t best = -1;
  for (size_t i = 0; i < judged.size(); ++i)
    if (judged[i].fits && accepts(i) &&
        (best < 0 || judged[i].figures.seconds < judged[best].figures.seconds))
      best = int64_t(i);
  return best;
}

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_SEARCH_SEARCH_H
