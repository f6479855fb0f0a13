//===- LaggingParts.h - Lists in which parts of a batch lag -----*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_LAGGINGPARTS_H
#define HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_LAGGINGPARTS_H

#include "ListScheduler.h"
#include "heddle/Support/Random.h"

namespace heddle {

/// Makes lists in which each part of the batch lags behind the part before it,
/// by a number of collectives. So the forward pass of the later part, which
/// communicates much, runs beside the backward pass of the earlier part. With a
/// lag that shrinks to 0, all parts end at the same time.
class LaggingParts {
public:
  struct Lags {
    /// The lags of each part but the first, at kKnots points at equal distances
    /// from the program's beginning to its end. Between two points a lag is
    /// linear. A lag of 1 is the length of the program.
    std::vector<double> knots;
    /// For each kind of unit, the distance by which its units move towards the
    /// end of the program. A distance of 1 is the length of the program. Units
    /// of a kind have one queue and take the same time.
    std::vector<double> kinds;
    /// Whether fillers only fill the waits for collectives. They are
    /// computations that no collectives wait for, or hardly any, such as
    /// gradients of weights.
    bool defers = false;
  };

  /// `turns` is getTurns(graph). Only a reference to it is kept, so the array
  /// must outlive this object. `depths` has, for each unit, the seconds of the
  /// longest chain of units before it.
  LaggingParts(const UnitGraph &graph, llvm::ArrayRef<double> turns,
               llvm::ArrayRef<double> depths);

  int32_t getNumParts() const { return parts; }

  /// Returns lags in which every part has the lag `lag`. If `shrinks` is set,
  /// the lag falls to 0 at the end of the program.
  Lags makeLags(double lag, bool shrinks, bool defers) const;

  /// Changes up to three numbers of `lags` at random.
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
  double most = 0; ///< the largest number of turns: the program's length
  int32_t parts = 0;
};

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_LAGGINGPARTS_H
