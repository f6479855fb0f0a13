//===- LaggingParts.h - Lists in which parts of a batch lag -----*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_LAGGINGPARTS_H
#define HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_LAGGINGPARTS_H

#include "ListScheduler.h"
#include "heddle/Support/Random.h"

namespace heddle {

/// Lists in which each part of the batch lags behind the part before it, by a
/// number of collectives. So the forward pass of the later part, which
/// communicates much, runs beside the backward pass of the earlier part. A lag
/// that shrinks lets all parts end at the same time.
class LaggingParts {
public:
  struct Lags {
    /// How far each part but the first lags, over the length of the program, at
    /// kKnots equal distances from its beginning to its end. Between two knots
    /// a lag is linear.
    std::vector<double> knots;
    /// How much later the units of each kind go, over the length of the
    /// program. Units of a kind have one queue and take the same time.
    std::vector<double> kinds;
    /// Whether fillers only fill the waits for collectives. They are
    /// computations that no collectives wait for, or hardly any, such as
    /// gradients of weights.
    bool defers = false;
  };

  /// `turns` is getTurns(graph), and `depths` the longest chain of seconds
  /// before each unit. Keeps `turns`.
  LaggingParts(const UnitGraph &graph, llvm::ArrayRef<double> turns,
               llvm::ArrayRef<double> depths);

  int32_t getNumParts() const { return parts; }

  /// Returns the same lag for all parts. One that shrinks is 0 at the end.
  Lags makeLags(double lag, bool shrinks, bool defers) const;

  /// Changes up to three numbers.
  static void change(Lags &lags, Random &random);

  /// Returns the rank of each unit.
  std::vector<double> getRanks(const Lags &lags) const;

private:
  static constexpr size_t kKnots = 7;
  static constexpr size_t kKinds = 16; ///< the last one is all others

  llvm::ArrayRef<double> turns;
  std::vector<int32_t> part; ///< of each unit
  std::vector<size_t> kind;  ///< of each unit
  std::vector<bool> fills;
  double most = 0; ///< the most turns, the length of the program
  int32_t parts = 0;
};

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_LAGGINGPARTS_H
