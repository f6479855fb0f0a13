//===- osdp_table.cpp - OSDP's plans over memory limits -------------------===//
//
// heddle-osdp-table profile_8gpu.json [layers]
//
// Prints Markdown: a line on the published model, and two tables. The first one
// has the throughput of the best plan, divided by that of the plan that shards
// everything. It has a row for each hidden size and batch index, and a column
// for each of several limits. A cell has three values: without splitting, with
// splitting at no cost, and with a charge for each slice. The second table has
// the batch with the best throughput under a limit.
//
//===----------------------------------------------------------------------===//

#include "heddle/Solver/Osdp.h"
#include "heddle/Solver/ProblemIO.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

using namespace heddle::solver;

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kParts[] = {0.0, 0.1, 0.25, 0.5, 0.75, 1.0};
constexpr double kLimits[] = {7392.0, 15584.0, 23776.0};

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

/// Counts of the solved problems and of how well they were solved.
struct Statistics {
  int solved = 0, withinGap = 0, unproven = 0;
  double worstMilliseconds = 0;
};

SolveOptions precisely() {
  SolveOptions s;
  s.threads = 1;
  s.timeoutSeconds = 10;
  s.gap = 1e-6;
  return s;
}

/// Returns the plan's speedup over all-sharded as text.
std::string gain(const OsdpProfileEntry &e, const OsdpOptions &o,
                 Statistics &stats) {
  auto start = Clock::now();
  auto plan = planOsdp(e, o, precisely());
  stats.worstMilliseconds =
      std::max(stats.worstMilliseconds, millisecondsSince(start));
  if (!plan || !plan->result.best)
    return "-";
  ++stats.solved;
  stats.withinGap += plan->result.why == StopReason::Gap;
  bool proven = plan->result.why == StopReason::Optimal ||
                plan->result.why == StopReason::Gap;
  stats.unproven += !proven;
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f%s",
                plan->allShardedSeconds / plan->seconds, proven ? "" : "*");
  return text;
}

void printPublished(const std::vector<OsdpProfileEntry> &profile) {
  for (const OsdpProfileEntry &e : profile) {
    if (e.hidden != 1536 || e.batchIndex != 1)
      continue;
    OsdpOptions o;
    o.layers = 48;
    o.megabytes = 7392;
    auto start = Clock::now();
    auto plan = planOsdp(e, o, precisely());
    double took = millisecondsSince(start);
    if (!plan || !plan->result.best)
      continue;
    std::printf("48 layers, hidden 1536, batch index 1, 7392 MB: layers with "
                "nothing, the MLP, attention, both sharded: %lld, %lld, %lld, "
                "%lld; %.3f s, all sharded %.3f s; %s in %.1f ms.\n\n",
                static_cast<long long>(plan->count[0]),
                static_cast<long long>(plan->count[1]),
                static_cast<long long>(plan->count[2]),
                static_cast<long long>(plan->count[3]), plan->seconds,
                plan->allShardedSeconds, nameOf(plan->result.why), took);
  }
}

void printEntry(const OsdpProfileEntry &e, OsdpOptions o, Statistics &stats) {
  double all = static_cast<double>(o.layers) * e.megabytes[3];
  double none = static_cast<double>(o.layers) * e.megabytes[0];
  std::printf(
      "| %lld | %lld | %.0f to %.0f |", static_cast<long long>(e.hidden),
      static_cast<long long>(e.batchIndex), std::ceil(all), std::ceil(none));
  for (double part : kParts) {
    o.megabytes = std::ceil(all + part * (none - all));
    o.slices = 1;
    std::string whole = gain(e, o, stats);
    o.slices = 4;
    o.secondsPerSlice = 0;
    std::string free = gain(e, o, stats);
    o.secondsPerSlice = 1e-4;
    std::string charged = gain(e, o, stats);
    std::printf(" %s / %s / %s |", whole.c_str(), free.c_str(),
                charged.c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
}

/// Returns the relative throughput of the best batch if everything is sharded.
double allShardedThroughput(const std::vector<OsdpProfileEntry> &profile,
                            int64_t hidden, const OsdpOptions &o) {
  double best = 0;
  auto layers = static_cast<double>(o.layers);
  for (const OsdpProfileEntry &e : profile)
    if (e.hidden == hidden && layers * e.megabytes[3] <= o.megabytes)
      best = std::max(best, relativeBatch(e) / (layers * e.seconds[3]));
  return best;
}

void printBatches(const std::vector<OsdpProfileEntry> &profile, int64_t hidden,
                  OsdpOptions o) {
  for (double limit : kLimits) {
    o.megabytes = limit;
    auto best = planOsdpBatch(profile, hidden, o, precisely());
    std::printf("| %lld | %.0f |", static_cast<long long>(hidden), limit);
    if (!best || !*best) {
      std::printf(" - | - |\n");
      continue;
    }
    const OsdpPlan &plan = **best;
    double sharded = allShardedThroughput(profile, hidden, o);
    std::printf(" %lld | ", static_cast<long long>(plan.profile.batchIndex));
    if (sharded > 0)
      std::printf("%.3f |\n",
                  relativeBatch(plan.profile) / plan.seconds / sharded);
    else
      std::printf("all sharded does not fit |\n");
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s profile.json [layers]\n", argv[0]);
    return 2;
  }
  auto text = readFile(argv[1]);
  auto profile = text ? parseOsdpProfile(*text) : text.takeError();
  if (!profile) {
    std::fprintf(stderr, "error: %s\n",
                 llvm::toString(profile.takeError()).c_str());
    return 2;
  }
  OsdpOptions o;
  o.layers = argc > 2 ? std::atoll(argv[2]) : 48;
  printPublished(*profile);
  std::printf("| hidden | batch index | MB: all to nothing sharded |");
  for (double part : kParts)
    std::printf(" %.0f %% |", 100 * part);
  std::printf("\n|---|---|---|---|---|---|---|---|---|\n");
  std::set<int64_t> sizes;
  Statistics stats;
  for (const OsdpProfileEntry &e : *profile) {
    printEntry(e, o, stats);
    sizes.insert(e.hidden);
  }
  std::printf("\n%d plans, %d of them stopped at a gap of 1e-6, %d not "
              "proven (*); the slowest took %.0f ms.\n\n",
              stats.solved, stats.withinGap, stats.unproven,
              stats.worstMilliseconds);
  std::printf("| hidden | limit in MB | best batch index | throughput over the "
              "best all-sharded batch |\n|---|---|---|---|\n");
  for (int64_t hidden : sizes)
    printBatches(*profile, hidden, o);
  return 0;
}
