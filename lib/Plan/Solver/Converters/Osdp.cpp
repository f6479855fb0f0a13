//===- Osdp.cpp - OSDP's planner as an instance ---------------------------===//

#include "heddle/Plan/Solver/Osdp.h"
#include "ProfileRows.h"

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

/// Between the four corners, at fractions `A` and `M` of the two halves.
double interpolate(const std::array<double, 4> &Corner, double A, double M) {
  return (1 - A) * ((1 - M) * Corner[0] + M * Corner[2]) +
         A * ((1 - M) * Corner[1] + M * Corner[3]);
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
        E.Seconds[C] = Row.number("layer_time_s");
        E.Megabytes[C] = Row.number("layer_memory_mb");
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
  auto Slices = static_cast<double>(O.Slices);
  for (int64_t A = 0; A <= O.Slices; ++A)
    for (int64_t M = 0; M <= O.Slices; ++M) {
      double FractionA = static_cast<double>(A) / Slices;
      double FractionM = static_cast<double>(M) / Slices;
      auto Extra = static_cast<double>(std::max<int64_t>(A - 1, 0) +
                                       std::max<int64_t>(M - 1, 0));
      double Seconds = interpolate(E.Seconds, FractionA, FractionM) +
                       Extra * O.SecondsPerSlice;
      double Megabytes = interpolate(E.Megabytes, FractionA, FractionM);
      Layer.Costs.push_back(std::llround(Seconds * NanosecondsPerSecond));
      Layer.Usages.push_back(
          static_cast<Usage>(std::ceil(Megabytes * BytesPerMegabyte)));
    }
  Problem P;
  P.Name = "osdp-hidden" + std::to_string(E.Hidden) + "-batch" +
           std::to_string(E.BatchIndex);
  P.Nodes.assign(O.Layers, Layer);
  P.UsageLimit = static_cast<Usage>(O.Megabytes * BytesPerMegabyte);
  return P;
}

Expected<OsdpPlan> planOsdp(const OsdpProfileEntry &E, const OsdpOptions &O,
                            const SolveOptions &S) {
  if (O.Layers < 1 || O.Slices < 1 || !(O.Megabytes >= 0) ||
      !(O.Megabytes < 1e12))
    return Error{"osdp: expected at least one layer and slice and memory of "
                 "at least 0"};
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
  Plan.Seconds = static_cast<double>(Plan.Result.Total) / NanosecondsPerSecond;
  Plan.Count.assign(P.Nodes[0].Costs.size(), 0);
  for (size_t N = 0; N < P.Nodes.size(); ++N) {
    int32_t Strategy = (*Plan.Result.Best)[N];
    ++Plan.Count[Strategy];
    Plan.Megabytes +=
        static_cast<double>(P.Nodes[N].Usages[Strategy]) / BytesPerMegabyte;
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
