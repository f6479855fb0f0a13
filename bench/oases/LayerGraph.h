//===- LayerGraph.h - Layers of a transformer as units ----------*- C++ -*-===//

#ifndef HEDDLE_BENCH_OASES_LAYERGRAPH_H
#define HEDDLE_BENCH_OASES_LAYERGRAPH_H

#include "OrderProgram/ListScheduler.h"
#include "heddle/Solver/Oases.h"

namespace heddle::bench {

/// The values that the backward pass computes again.
enum class Recompute {
  None,
  Layer,        ///< a whole layer, with its all-reduces
  Communication ///< a half-layer, from the result of the all-reduce before it
};

/// A training step of equal layers. A layer has two halves, attention and MLP.
/// Each half ends with an all-reduce in the forward and in the backward pass.
struct Step {
  int layers = 1;
  int parts = 1; ///< of the batch
  Recompute recompute = Recompute::None;
  /// Whether computations and all-reduces keep the order of their numbers, as a
  /// named schedule does. Otherwise the scheduler may choose.
  bool keepsOrder = false;
};

/// Returns the units of a step. `part` has the times of one part. Queue 0
/// computes and queue 1 communicates. The units are numbered in Oases' order:
/// the parts take turns at each half-layer. In the forward pass the first part
/// goes first, in the backward pass the last one.
UnitGraph makeGraph(const solver::OasesProfileRow &part, const Step &step);

} // namespace heddle::bench

#endif // HEDDLE_BENCH_OASES_LAYERGRAPH_H
