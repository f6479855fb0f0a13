//===- Osdp.h - The problem of OSDP's planner -------------------*- C++ -*-===//
//
// Optimal Sharded Data Parallel (Jiang et al., IJCAI 2023) decides per layer
// of a transformer whether the parameters of its attention and of its MLP are
// stored sharded, which saves memory and costs collectives. Its released
// planner is a knapsack over a profile; here it is a Problem with a node per
// layer, all live at the same time. Two things differ from the released
// planner: the objective is throughput over all batch sizes, not the time of
// the smallest batch; and operators can be split into slices, of which only
// some are sharded.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SOLVER_OSDP_H
#define HEDDLE_SOLVER_OSDP_H

#include "heddle/Solver/Solve.h"

#include <array>
#include <string_view>

namespace heddle::solver {

/// One layer's measurements, indexed by the sharded halves: 0 none, 1
/// attention, 2 the MLP, 3 both.
struct OsdpProfileEntry {
  int64_t hidden = 0;
  int64_t batchIndex = 0; ///< Position in the profile's list of batch sizes.
  std::array<double, 4> seconds{};
  std::array<double, 4> megabytes{};
};

/// Reads `{"rows": [{"hidden", "batch_index", "sharded", "layer_time_s",
/// "layer_memory_mb"}, ...]}`; every hidden size and batch index must have all
/// four choices.
llvm::Expected<std::vector<OsdpProfileEntry>>
parseOsdpProfile(std::string_view json);

/// Limits up to which `osdpProblem` stays within 64 bits, for every profile
/// that `parseOsdpProfile` reads.
inline constexpr double kMaxOsdpMegabytes = 1e9;
inline constexpr int64_t kMaxOsdpSlices = 64;

struct OsdpOptions {
  int64_t layers = 48;
  double megabytes = 0; ///< For the layers, after fixed overhead.
  /// Each half-layer splits into this many slices, any number of which may be
  /// sharded; time and memory between the profile's corners are interpolated
  /// bilinearly. 1: no splitting.
  int64_t slices = 1;
  /// The latency of the collectives of a sharded slice. It is charged for every
  /// such slice after the first of a half-layer that also has slices that are
  /// not sharded. An assumption: the profile does not have it.
  double secondsPerSlice = 1e-4;
};

/// Strategy `a * (slices + 1) + m` of a node shards `a` slices of the layer's
/// attention and `m` of its MLP. Costs are in nanoseconds / slices^2, usages in
/// bytes / slices^2. The profile's megabytes are rounded up to bytes.
Problem osdpProblem(const OsdpProfileEntry &e, const OsdpOptions &o);

/// The names of the strategies, such as `MLP sharded`.
std::vector<std::string> nameOsdpStrategies(const OsdpOptions &o);

/// A plan for one batch size.
struct OsdpPlan {
  OsdpProfileEntry profile;
  Solution result;
  double seconds = 0;   ///< Of a step; infinite if no plan fits.
  double megabytes = 0; ///< Of the layers.
  /// The seconds of a step if everything is sharded; infinite if it does not
  /// fit.
  double allShardedSeconds = 0;
  /// By strategy: the number of layers.
  std::vector<int64_t> count;
};

/// Solves one entry to the optimum.
llvm::Expected<OsdpPlan> planOsdp(const OsdpProfileEntry &e,
                                  const OsdpOptions &o, const SolveOptions &s);

/// The relative batch size of an entry: its batch index. The memory of the
/// fully sharded layer grows linearly with the index, and is that of the
/// parameters alone at index 0. So activations, and with them the batch, are
/// proportional to the index. Index 0 gives no batch size from which to compute
/// a throughput.
double relativeBatch(const OsdpProfileEntry &e);

/// The plan with the largest throughput (relative batch over seconds) among all
/// entries of a hidden size; none if no plan fits.
llvm::Expected<std::optional<OsdpPlan>>
planOsdpBatch(const std::vector<OsdpProfileEntry> &profile, int64_t hidden,
              const OsdpOptions &o, const SolveOptions &s);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_OSDP_H
