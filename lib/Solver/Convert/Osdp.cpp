//===- Osdp.cpp - The problem of OSDP's planner ---------------------------===//

#include "heddle/Solver/Osdp.h"
#include "Convert/ProfileRows.h"

#include <cmath>
#include <limits>
#include <map>

namespace heddle::solver {

namespace {
constexpr const char *kChoiceNames[] = {"none", "attention", "mlp",
                                        "attention+mlp"};
constexpr size_t kAllSharded = 3;
constexpr double kNanosecondsPerSecond = 1e9;
constexpr double kBytesPerMegabyte = 1e6;

/// Interpolates between the four corners of the profile, where `a` of `slices`
/// slices of the attention and `m` of the MLP are sharded. Returns the value
/// times slices^2, which is an integer: so mixtures of strategies that should
/// cost the same do so exactly.
int64_t interpolate(const std::array<int64_t, 4> &corner, int64_t a, int64_t m,
                    int64_t slices) {
  return (slices - a) * ((slices - m) * corner[0] + m * corner[2]) +
         a * ((slices - m) * corner[1] + m * corner[3]);
}

/// The number of sharded slices of a half-layer beyond the first; 0 if all are
/// sharded, since the half-layer then need not be split.
int64_t extraSlices(int64_t sharded, int64_t slices) {
  return sharded == 0 || sharded == slices ? 0 : sharded - 1;
}
} // namespace

llvm::Expected<std::vector<OsdpProfileEntry>>
parseOsdpProfile(std::string_view json) {
  std::map<std::pair<int64_t, int64_t>, OsdpProfileEntry> entries;
  std::map<std::pair<int64_t, int64_t>, int> seen;
  llvm::Error failure = readProfileRows(json, [&](ProfileRow &row) {
    std::pair key{row.integer("hidden"), row.integer("batch_index")};
    std::string sharded = row.text("sharded");
    OsdpProfileEntry &e = entries[key];
    e.hidden = key.first;
    e.batchIndex = key.second;
    for (size_t c = 0; c < 4; ++c)
      if (sharded == kChoiceNames[c]) {
        e.seconds[c] = row.number("layer_time_s", 1e6);
        e.megabytes[c] = row.number("layer_memory_mb", 1e9);
        seen[key] |= 1 << c;
        return;
      }
    row.fail("sharded", "none, attention, mlp or attention+mlp");
  });
  if (failure)
    return failure;
  std::vector<OsdpProfileEntry> result;
  for (const auto &[key, e] : entries) {
    if (seen[key] != 0b1111)
      return llvm::createStringError(
          "rows: expected all four choices for hidden " +
          std::to_string(key.first) + ", batch_index " +
          std::to_string(key.second));
    result.push_back(e);
  }
  return result;
}

Problem osdpProblem(const OsdpProfileEntry &e, const OsdpOptions &o) {
  Node layer;
  layer.live = {0, 1};
  std::array<int64_t, 4> nanoseconds{}, bytes{};
  for (size_t c = 0; c < 4; ++c) {
    nanoseconds[c] = std::llround(e.seconds[c] * kNanosecondsPerSecond);
    bytes[c] =
        static_cast<int64_t>(std::ceil(e.megabytes[c] * kBytesPerMegabyte));
  }
  int64_t units = o.slices * o.slices;
  int64_t perSlice =
      units * std::llround(o.secondsPerSlice * kNanosecondsPerSecond);
  for (int64_t a = 0; a <= o.slices; ++a)
    for (int64_t m = 0; m <= o.slices; ++m) {
      int64_t extra = extraSlices(a, o.slices) + extraSlices(m, o.slices);
      layer.costs.push_back(interpolate(nanoseconds, a, m, o.slices) +
                            extra * perSlice);
      layer.usages.push_back(interpolate(bytes, a, m, o.slices));
    }
  Problem p;
  p.name = "osdp-hidden" + std::to_string(e.hidden) + "-batch" +
           std::to_string(e.batchIndex);
  p.nodes.assign(o.layers, layer);
  p.usageLimit = units * static_cast<Usage>(o.megabytes * kBytesPerMegabyte);
  return p;
}

std::vector<std::string> nameOsdpStrategies(const OsdpOptions &o) {
  if (o.slices == 1)
    return {"nothing sharded", "MLP sharded", "attention sharded",
            "attention and MLP sharded"};
  std::vector<std::string> names;
  std::string of = " of " + std::to_string(o.slices);
  for (int64_t a = 0; a <= o.slices; ++a)
    for (int64_t m = 0; m <= o.slices; ++m)
      names.push_back(std::string("slices sharded: ")
                          .append(std::to_string(a))
                          .append(of)
                          .append(" of attention, ")
                          .append(std::to_string(m))
                          .append(of)
                          .append(" of the MLP"));
  return names;
}

llvm::Expected<OsdpPlan> planOsdp(const OsdpProfileEntry &e,
                                  const OsdpOptions &o, const SolveOptions &s) {
  if (o.layers < 1 || o.slices < 1 || o.slices > kMaxOsdpSlices ||
      !(o.megabytes >= 0) || !(o.megabytes < kMaxOsdpMegabytes))
    return llvm::createStringError("osdp: expected at least one layer, 1 to " +
                                   std::to_string(kMaxOsdpSlices) +
                                   " slices and memory from 0 to below 1e9 MB");
  OsdpPlan plan;
  plan.profile = e;
  Problem p = osdpProblem(e, o);
  auto result = solve(p, s);
  if (!result)
    return result.takeError();
  plan.result = std::move(*result);
  auto layers = static_cast<double>(o.layers);
  bool allShardedFits = layers * e.megabytes[kAllSharded] <= o.megabytes;
  double infinity = std::numeric_limits<double>::infinity();
  plan.allShardedSeconds =
      allShardedFits ? layers * e.seconds[kAllSharded] : infinity;
  plan.seconds = infinity;
  if (!plan.result.best)
    return plan;
  auto units = static_cast<double>(o.slices * o.slices);
  plan.seconds =
      static_cast<double>(plan.result.total) / units / kNanosecondsPerSecond;
  plan.count.assign(p.nodes[0].costs.size(), 0);
  for (size_t n = 0; n < p.nodes.size(); ++n) {
    int32_t strategy = (*plan.result.best)[n];
    ++plan.count[strategy];
    plan.megabytes += static_cast<double>(p.nodes[n].usages[strategy]) / units /
                      kBytesPerMegabyte;
  }
  return plan;
}

double relativeBatch(const OsdpProfileEntry &e) {
  return static_cast<double>(e.batchIndex);
}

llvm::Expected<std::optional<OsdpPlan>>
planOsdpBatch(const std::vector<OsdpProfileEntry> &profile, int64_t hidden,
              const OsdpOptions &o, const SolveOptions &s) {
  std::optional<OsdpPlan> best;
  for (const OsdpProfileEntry &e : profile) {
    if (e.hidden != hidden || relativeBatch(e) <= 0)
      continue;
    auto plan = planOsdp(e, o, s);
    if (!plan)
      return plan.takeError();
    if (!plan->result.best)
      continue;
    if (!best || relativeBatch(e) / plan->seconds >
                     relativeBatch(best->profile) / best->seconds)
      best = std::move(*plan);
  }
  return best;
}

} // namespace heddle::solver
