//===- Osdp.h - OSDP's planner as an instance -------------------*- C++ -*-===//
//
// Optimal Sharded Data Parallel (Jiang et al., IJCAI 2023) decides per layer
// of a transformer whether the parameters of its attention and of its MLP are
// stored sharded, which saves memory and costs collectives. Its released
// planner is a knapsack over a profile; here it is a Problem with a node per
// layer, all live at the same time. Corrected: the objective is throughput, not
// the time of the smallest batch, and all batch sizes are tried. Added:
// operators split into slices, of which only some are sharded.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SOLVER_OSDP_H
#define HEDDLE_SOLVER_OSDP_H

#include "heddle/Solver/Solve.h"

#include <array>
#include <string_view>

namespace heddle::solver {

/// One layer's measurements, by what is sharded: 0 nothing, 1 attention, 2 the
/// MLP, 3 both.
struct OsdpProfileEntry {
  int64_t Hidden = 0;
  int64_t BatchIndex = 0; ///< Position in the profile's list of batch sizes.
  std::array<double, 4> Seconds{};
  std::array<double, 4> Megabytes{};
};

/// Reads `{"rows": [{"hidden", "batch_index", "sharded", "layer_time_s",
/// "layer_memory_mb"}, ...]}`; every hidden size and batch index must have all
/// four choices.
Expected<std::vector<OsdpProfileEntry>> parseOsdpProfile(std::string_view Json);

/// Up to these, and for the profiles that `parseOsdpProfile` reads, nothing in
/// `osdpProblem` leaves 64 bits.
inline constexpr double MaxOsdpMegabytes = 1e9;
inline constexpr int64_t MaxOsdpSlices = 64;

struct OsdpOptions {
  int64_t Layers = 48;
  double Megabytes = 0; ///< For the layers, after fixed overhead.
  /// Each half-layer splits into this many slices, any number of which may be
  /// sharded; time and memory between the profile's corners are interpolated
  /// bilinearly. 1: no splitting.
  int64_t Slices = 1;
  /// What every sharded slice of a half-layer after the first adds where others
  /// are not sharded, for the latency of its collectives; the profile does not
  /// tell.
  double SecondsPerSlice = 1e-4;
};

/// Strategy `a * (Slices + 1) + m` of a node shards `a` slices of the layer's
/// attention and `m` of its MLP. Costs are nanoseconds / Slices^2, usages bytes
/// (10^-6 MB, rounded up) / Slices^2.
Problem osdpProblem(const OsdpProfileEntry &E, const OsdpOptions &O);

/// What its strategies stand for, such as `MLP sharded`.
std::vector<std::string> nameOsdpStrategies(const OsdpOptions &O);

/// What a plan says of one batch size.
struct OsdpPlan {
  OsdpProfileEntry Profile;
  Solution Result;
  double Seconds = 0;           ///< Of a step; infinite if nothing fits.
  double Megabytes = 0;         ///< Of the layers.
  double AllShardedSeconds = 0; ///< Infinite if that does not fit.
  /// Layers by strategy.
  std::vector<int64_t> Count;
};

/// Solves one entry to the optimum.
Expected<OsdpPlan> planOsdp(const OsdpProfileEntry &E, const OsdpOptions &O,
                            const SolveOptions &S);

/// The relative batch size of an entry, as its activations show it: the memory
/// of the fully sharded layer grows linearly with the index and is that of the
/// parameters alone at index 0, which hence has no batch size that throughput
/// could be told from.
double relativeBatch(const OsdpProfileEntry &E);

/// The plan with the largest throughput (relative batch over seconds) among
/// all entries of a hidden size; none if nothing fits.
Expected<std::optional<OsdpPlan>>
planOsdpBatch(const std::vector<OsdpProfileEntry> &Profile, int64_t Hidden,
              const OsdpOptions &O, const SolveOptions &S);

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_OSDP_H
