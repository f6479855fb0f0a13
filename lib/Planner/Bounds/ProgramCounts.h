//===- ProgramCounts.h - Work and bytes of a global program -----*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_BOUNDS_PROGRAMCOUNTS_H
#define HEDDLE_LIB_PLANNER_BOUNDS_PROGRAMCOUNTS_H

#include "dialects/Interfaces/ShardingRule.h"
#include "heddle/Support/Cluster.h"
#include "mlir/IR/BuiltinOps.h"
#include <cstdint>

namespace heddle {

/// Returns whether tensor parallelism splits factors of this role.
bool isTensorRole(FactorRole role);

/// The total work and traffic of one micro-batch, and of the update after the
/// last one, before anything is split. Counted over ops and their sharding
/// rules.
struct ProgramCounts {
  /// Bytes of variables. `gradients` has the gradients that a step accumulates.
  double parameters = 0, optimizerState = 0, gradients = 0;
  /// Bytes of the parameters that no loop over the sequence runs over: weights,
  /// but not tables of positions. They stay whole if the sequence is split.
  double weights = 0;
  /// Seconds of all products of a micro-batch, on one device at its peak rate
  /// times efficiency. Then those of the products in the forward pass.
  double products = 0, forwardProducts = 0;
  /// Seconds of the products of the forward pass that no sum over devices
  /// follows. Recomputation repeats them. It may keep the sums of the others.
  double repeatedProducts = 0;
  /// Seconds of the products behind the last layer, in both passes. The last
  /// stage of a pipeline has them.
  double headProducts = 0;
  /// Bytes of the parameters that products behind the last layer share with ops
  /// before it. The first and the last stage of a pipeline exchange their
  /// gradients.
  double sharedTables = 0;
  /// Seconds of a whole micro-batch on one device, as compiled, if nothing is
  /// split. The planner sets it, counting does not.
  double computing = 0;
  /// Seconds of the launches of these kernels, and of those among them whose
  /// time grows with the rows. The planner sets both, too.
  double launches = 0, growingLaunches = 0;
  double numProducts = 0;
  /// Bytes that all other ops read and write, if no two are fused.
  double otherBytes = 0;
  /// Bytes that the update reads and writes.
  double updateBytes = 0;
  /// The parts of `repeatedProducts` that belong to attention and to the
  /// products that compute its operands, in seconds.
  double repeatedAttention = 0, repeatedBefore = 0;
  /// Bytes of results of the forward pass that the backward pass reads, if no
  /// two ops are fused. The other three count only results that are certainly
  /// stored. `keptWhole`: operands of products that tensor parallelism does not
  /// split, so that every device has them whole. `keptInParts`: all others.
  /// `keptOfAttention`: the part of `keptInParts` that attention reads and
  /// writes.
  double keptBytes = 0, keptWhole = 0, keptInParts = 0, keptOfAttention = 0;
  /// Bytes of the largest result of the backward pass that has a part for each
  /// row. Then those of the largest gradient of a parameter.
  double largestGradient = 0, largestOfParameters = 0;
  /// Bytes of the results of an evaluation, or of the public functions if there
  /// is none.
  double results = 0;
  /// Bytes of the parameters that products of both passes read.
  double readTwice = 0;
  /// Bytes and number of the sums over devices in both passes, if tensor
  /// parallelism splits features, heads and vocabulary.
  double tensorSums = 0, numTensorSums = 0;
  /// Bytes and number of the keys and values of attention. Then the bytes of
  /// its queries and outputs. Counts the forward pass alone.
  double keyBytes = 0, numKeys = 0, queryBytes = 0;
  /// The part of `products` that belongs to attentions with a causal mask, in
  /// seconds.
  double causalAttention = 0;

  /// Returns a + factor * b.
  static ProgramCounts add(const ProgramCounts &a, const ProgramCounts &b,
                           double factor);
};

/// Counts a program after autodiff. A program without a training step counts
/// its public functions as one micro-batch.
ProgramCounts countProgram(mlir::ModuleOp module, const ClusterDevice &device);

/// Counts as a function of rows and layers. They are affine in each, so that
/// programs of one and two rows and layers determine those of any size.
class CountModel {
public:
  /// Makes the counts of a program whose size is fixed.
  explicit CountModel(ProgramCounts counts) : base(counts) {}
  /// `counts[i][j]` are those of rows[i] rows and layers[j] layers.
  CountModel(const ProgramCounts (&counts)[2][2], const double (&rows)[2],
             const double (&layers)[2]);

  ProgramCounts at(double rows, double layers) const;
  /// Returns what each layer adds; nothing if only one size is known.
  ProgramCounts ofLayer(double rows) const;

private:
  ProgramCounts base, perRow, perLayer, perRowAndLayer;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_BOUNDS_PROGRAMCOUNTS_H
