//===- Corrections.h - What judged candidates say of others -----*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_SEARCH_CORRECTIONS_H
#define HEDDLE_LIB_PLANNER_SEARCH_CORRECTIONS_H

#include "heddle/Planner/Planner.h"
#include <array>
#include <map>
#include <optional>
#include <vector>

namespace heddle {

/// A factor for an estimate, and the part by which the corrected estimate may
/// still be wrong.
struct Correction {
  double factor = 1, error = 0;
};

/// What a candidate has in common with others, the most first, as numbers:
/// candidates that agree so far have the same one.
using CorrectionKeys = std::array<int32_t, 5>;

/// Numbers what candidates have in common.
class CorrectionKeyMaker {
public:
  /// `rows` is the number of rows of a step.
  explicit CorrectionKeyMaker(int64_t rows) : rows(rows) {}

  CorrectionKeys get(const Candidate &candidate);

private:
  int64_t rows;
  std::map<std::vector<int64_t>, int32_t> numbers;
};

/// Factors between estimates and judgements. Estimates of candidates that split
/// operators alike err alike, so a candidate's factor is that of the candidate
/// nearest to it that was judged last.
class Corrections {
public:
  void learn(const CorrectionKeys &keys, double factor);
  Correction get(const CorrectionKeys &keys) const;

private:
  std::vector<std::optional<double>> factors; ///< by number
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_SEARCH_CORRECTIONS_H
