//===- Corrections.h - What judged candidates say of others -----*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_SEARCH_CORRECTIONS_H
#define HEDDLE_LIB_PLANNER_SEARCH_CORRECTIONS_H

#include "heddle/Planner/Planner.h"
#include <map>

namespace heddle {

/// A factor for an estimate, and the part by which the corrected estimate may
/// still be wrong.
struct Correction {
  double factor = 1, error = 0;
};

/// Factors between estimates and judgements. Estimates of candidates that split
/// operators alike err alike, so a candidate's factor is that of the candidate
/// nearest to it that was judged last.
class Corrections {
public:
  /// `rows` is the number of rows of a step.
  explicit Corrections(int64_t rows) : rows(rows) {}

  void learn(const Candidate &candidate, double factor);
  Correction get(const Candidate &candidate) const;

private:
  using Key = std::vector<int64_t>;
  std::vector<Key> getKeys(const Candidate &candidate) const;

  int64_t rows;
  std::map<Key, double> factors;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_SEARCH_CORRECTIONS_H
