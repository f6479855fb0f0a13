//===- Compare.h - A simulation beside real runs ----------------*- C++ -*-===//

#ifndef HEDDLE_SIMULATE_COMPARE_H
#define HEDDLE_SIMULATE_COMPARE_H

#include "heddle/Simulate/RunTrace.h"
#include "heddle/Simulate/Simulate.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>

namespace heddle {

/// Simulated and measured seconds of the same thing.
struct SecondsPair {
  double simulated = 0, measured = 0;

  SecondsPair &operator+=(const SecondsPair &other) {
    simulated += other.simulated;
    measured += other.measured;
    return *this;
  }
  /// Returns by how much the simulation is too long, as a part of the measured
  /// time. Negative: it is too short.
  double getError() const {
    return measured > 0 ? simulated / measured - 1 : 0;
  }
};

/// All calls of one kind, or all calls whose operators differ in the numbers of
/// their layers alone.
struct ComparedRow {
  std::string name;
  int64_t calls = 0; ///< of one rank in one step
  SecondsPair seconds;
};

struct Comparison {
  int64_t runs = 0, ranks = 0; ///< in the trace
  SecondsPair step, computing, communicating;
  /// The rest of the step: the compute stream waits, less the time in which
  /// communication runs beside computation. Unset if the ranks have several
  /// lists of calls, whose times `computing` and `communicating` add up.
  std::optional<SecondsPair> rest;
  std::vector<ComparedRow> kinds;     ///< the longest measured first
  std::vector<ComparedRow> operators; ///< the largest difference first
};

/// Compares each simulated call with the median of its measured times
/// (getCallTimes). The step's time is the median over runs; that
/// of a run is its longest rank. Fails if the trace is of another program.
llvm::Expected<Comparison> compare(const Simulation &simulation,
                                   mlir::ModuleOp module,
                                   const RunTrace &trace);

void printComparison(llvm::raw_ostream &out, const Comparison &comparison);
/// Writes the comparison as one JSON object (docs/simulate.md).
void writeComparisonJson(llvm::raw_ostream &out, const Comparison &comparison);

} // namespace heddle

#endif // HEDDLE_SIMULATE_COMPARE_H
