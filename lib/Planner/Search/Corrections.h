//===- Corrections.h - Corrections of estimates -----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_SEARCH_CORRECTIONS_H
#define HEDDLE_LIB_PLANNER_SEARCH_CORRECTIONS_H

#include "heddle/Planner/Planner.h"
#include <array>
#include <optional>
#include <unordered_map>
#include <vector>

namespace heddle {

/// A factor for an estimate, and the relative error that the corrected estimate
/// may still have.
struct Correction {
  double factor = 1, error = 0;
};

/// Numbers for the sets of choices that a candidate shares with others, the
/// largest set first. Two candidates have the same number at an index if they
/// agree in that set of choices.
using CorrectionKeys = std::array<int32_t, 5>;

/// The keys of a candidate for the estimates of its time and of its memory.
/// Candidates of one mesh and storage have similar errors of the time, whatever
/// they recompute, if their batches have parts or both have none. The memory
/// depends on recomputation and the kind of pipeline first.
struct CandidateKeys {
  CorrectionKeys time = {}, memory = {};
};

/// Maps the shared choices of candidates to numbers.
class CorrectionKeyMaker {
public:
  /// `rows` is the number of rows of a step.
  explicit CorrectionKeyMaker(int64_t rows) : rows(rows) {}

  CandidateKeys get(const Candidate &candidate);
  /// Returns whether two candidates agree in more choices than the first ones,
  /// so that a judgement of one corrects the other one closely.
  static bool areSimilar(const CorrectionKeys &a, const CorrectionKeys &b) {
    constexpr size_t kFirstTwo = std::tuple_size_v<CorrectionKeys> - 2;
    return a[kFirstTwo] == b[kFirstTwo];
  }

private:
  using Parts = std::initializer_list<std::initializer_list<int64_t>>;
  CorrectionKeys number(Parts parts);
  /// The first `length` choices; the others are 0.
  struct Choices {
    std::array<int64_t, 15> values = {};
    size_t length = 0;
    bool operator==(const Choices &) const = default;
  };
  struct Hash {
    size_t operator()(const Choices &choices) const;
  };

  int64_t rows;
  std::unordered_map<Choices, int32_t, Hash> numbers;
};

/// The assumed relative errors of corrected estimates, by the index of the
/// largest set of choices in which the candidate agrees with the one that
/// corrects it. The last error is that of an estimate that no candidate
/// corrects. These values are not fitted. Estimates of memory are less exact
/// than those of times.
using CorrectionErrors =
    std::array<double, std::tuple_size_v<CorrectionKeys> + 1>;
constexpr CorrectionErrors kTimeErrors = {0.02, 0.05, 0.1, 0.15, 0.2, 0.3};
constexpr CorrectionErrors kMemoryErrors = {0.05, 0.15, 0.2, 0.25, 0.3, 0.4};

/// Factors from estimates to judgements. Candidates that split operators alike
/// have similar errors. So a candidate gets the factor of the judged candidate
/// that agrees most with it, and of several the one that was judged last.
class Corrections {
public:
  explicit Corrections(const CorrectionErrors &errors) : errors(errors) {}

  void learn(const CorrectionKeys &keys, double factor);
  Correction get(const CorrectionKeys &keys) const;

private:
  CorrectionErrors errors;
  std::vector<std::optional<double>> factors; ///< by number
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_SEARCH_CORRECTIONS_H
