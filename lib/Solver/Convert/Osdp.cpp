//===- Osdp.cpp - OSDP's planner as an instance ---------------------------===//

#include "heddle/Solver/Osdp.h"
#include "Convert/ProfileRows.h"

#include <cmath>
#include <limits>
#include <map>

namespace heddle::solver {

namespace {
constexpr const char *ChoiceNames[] = {"none", "attention", "mlp",
                                       "attention+mlp"};
constexpr size_t AllSharded = 3;
constexpr double NanosecondsPerSecond = 1e9;
constexpr double BytesPerMegabyte = 1e6;

/// Between the four corners, at `A` and `M` of `Slices` slices of the halves,
/// times Slices^2: whole numbers, so that mixtures that ought to be equal are.
int64_t interpolate(const std::array<int64_t, 4> &Corner, int64_t A, int64_t M,
                    int64_t Slices) {
  return (Slices - A) * ((Slices - M) * Corner[0] + M * Corner[2]) +
         A * ((Slices - M) * Corner[1] + M * Corner[3]);
}

/// The sharded slices of a half-layer beyond the first. What is sharded as a
/// whole need not be split.
int64_t extraSlices(int64_t Sharded, int64_t Slices) {
  return Sharded == 0 || Sharded == Slices ? 0 : Sharded - 1;
}
} // namespace

Expected<std::vector<OsdpProfileEntry>>
parseOsdpProfile(std::string_view Json) {
  std::map<std::pair<int64_t, int64_t>, OsdpProfileEntry> Entries;
  std::map<std::pair<int64_t, int64_t>, int> Seen;
  auto Failure = readProfileRows(Json, [&](ProfileRow &Row) {
    std::pair Key{Row.integer("hidden"), Row.integer("batch_index")};
    std::string Sharded = Row.text("sharded");
    OsdpProfileEntry &E = Entries[Key];
    E.Hidden = Key.first;
    E.BatchIndex = Key.second;
    for (size_t C = 0; C < 4; ++C)
      if (Sharded == ChoiceNames[C]) {
        E.Seconds[C] = Row.number("layer_time_s", 1e6);
        E.Megabytes[C] = Row.number("layer_memory_mb", 1e9);
        Seen[Key] |= 1 << C;
        return;
      }
    Row.fail("sharded", "none, attention, mlp or attention+mlp");
  });
  if (Failure)
    return *Failure;
  std::vector<OsdpProfileEntry> Result;
  for (const auto &[Key, E] : Entries) {
    if (Seen[Key] != 0b1111)
      return Error{"rows: expected all four choices for hidden " +
                   std::to_string(Key.first) + ", batch_index " +
                   std::to_string(Key.second)};
    Result.push_back(E);
  }
  return Result;
}

Problem osdpProblem(const OsdpProfileEntry &E, const OsdpOptions &O) {
  Node Layer;
  Layer.Live = {0, 1};
  std::array<int64_t, 4> Nanoseconds{}, Bytes{};
  for (size_t C = 0; C < 4; ++C) {
    Nanoseconds[C] = std::llround(E.Seconds[C] * NanosecondsPerSecond);
    Bytes[C] =
        static_cast<int64_t>(std::ceil(E.Megabytes[C] * BytesPerMegabyte));
  }
  int64_t Units = O.Slices * O.Slices;
  int64_t PerSlice =
      Units * std::llround(O.SecondsPerSlice * NanosecondsPerSecond);
  for (int64_t A = 0; A <= O.Slices; ++A)
    for (int64_t M = 0; M <= O.Slices; ++M) {
      int64_t Extra = extraSlices(A, O.Slices) + extraSlices(M, O.Slices);
      Layer.Costs.push_back(interpolate(Nanoseconds, A, M, O.Slices) +
                            Extra * PerSlice);
      Layer.Usages.push_back(interpolate(Bytes, A, M, O.Slices));
    }
  Problem P;
  P.Name = "osdp-hidden" + std::to_string(E.Hidden) + "-batch" +
           std::to_string(E.BatchIndex);
  P.Nodes.assign(O.Layers, Layer);
  P.UsageLimit = Units * static_cast<Usage>(O.Megabytes * BytesPerMegabyte);
  return P;
}

std::vector<std::string> nameOsdpStrategies(const OsdpOptions &O) {
  if (O.Slices == 1)
    return {"nothing sharded", "MLP sharded", "attention sharded",
            "attention and MLP sharded"};
  std::vector<std::string> Names;
  std::string Of = " of " + std::to_string(O.Slices);
  for (int64_t A = 0; A <= O.Slices; ++A)
    for (int64_t M = 0; M <= O.Slices; ++M)
      Names.push_back(std::string("slices sharded: ")
                          .append(std::to_string(A))
                          .append(Of)
                          .append(" of attention, ")
                          .append(std::to_string(M))
                          .append(Of)
                          .append(" of the MLP"));
  return Names;
}

Expected<OsdpPlan> planOsdp(const OsdpProfileEntry &E, const OsdpOptions &O,
                            const SolveOptions &S) {
  if (O.Layers < 1 || O.Slices < 1 || O.Slices > MaxOsdpSlices ||
      !(O.Megabytes >= 0) || !(O.Megabytes < MaxOsdpMegabytes))
    return Error{"osdp: expected at least one layer, 1 to " +
                 std::to_string(MaxOsdpSlices) +
                 " slices and memory from 0 to below 1e9 MB"};
  OsdpPlan Plan;
  Plan.Profile = E;
  Problem P = osdpProblem(E, O);
  auto Result = solve(P, S);
  if (!Result)
    return Result.error();
  Plan.Result = std::move(*Result);
  auto Layers = static_cast<double>(O.Layers);
  bool AllShardedFits = Layers * E.Megabytes[AllSharded] <= O.Megabytes;
  double Infinity = std::numeric_limits<double>::infinity();
  Plan.AllShardedSeconds =
      AllShardedFits ? Layers * E.Seconds[AllSharded] : Infinity;
  Plan.Seconds = Infinity;
  if (!Plan.Result.Best)
    return Plan;
  auto Units = static_cast<double>(O.Slices * O.Slices);
  Plan.Seconds =
      static_cast<double>(Plan.Result.Total) / Units / NanosecondsPerSecond;
  Plan.Count.assign(P.Nodes[0].Costs.size(), 0);
  for (size_t N = 0; N < P.Nodes.size(); ++N) {
    int32_t Strategy = (*Plan.Result.Best)[N];
    ++Plan.Count[Strategy];
    Plan.Megabytes += static_cast<double>(P.Nodes[N].Usages[Strategy]) / Units /
                      BytesPerMegabyte;
  }
  return Plan;
}

double relativeBatch(const OsdpProfileEntry &E) {
  return static_cast<double>(E.BatchIndex);
}

Expected<std::optional<OsdpPlan>>
planOsdpBatch(const std::vector<OsdpProfileEntry> &Profile, int64_t Hidden,
              const OsdpOptions &O, const SolveOptions &S) {
  std::optional<OsdpPlan> Best;
  for (const OsdpProfileEntry &E : Profile) {
    if (E.Hidden != Hidden || relativeBatch(E) <= 0)
      continue;
    auto Plan = planOsdp(E, O, S);
    if (!Plan)
      return Plan.error();
    if (!Plan->Result.Best)
      continue;
    if (!Best || relativeBatch(E) / Plan->Seconds >
                     relativeBatch(Best->Profile) / Best->Seconds)
      Best = std::move(*Plan);
  }
  return Best;
}

} // namespace heddle::solver
