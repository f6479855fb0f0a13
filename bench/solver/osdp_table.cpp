//===- osdp_table.cpp - OSDP's plans over memory limits -------------------===//
//
// heddle-osdp-table profile_8gpu.json [layers]
//
// Prints three tables as Markdown: the published model; for every hidden size,
// batch index and a sweep of limits, the throughput of the best plan over that
// of all-sharded, without and with splitting; and the batch that throughput
// chooses at a limit.
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

constexpr double Parts[] = {0.0, 0.1, 0.25, 0.5, 0.75, 1.0};
constexpr double Limits[] = {7392.0, 15584.0, 23776.0};

double millisecondsSince(Clock::time_point Start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - Start)
      .count();
}

/// What was solved, and how well.
struct Statistics {
  int Solved = 0, WithinGap = 0, Unproven = 0;
  double WorstMilliseconds = 0;
};

SolveOptions precisely() {
  SolveOptions S;
  S.Threads = 1;
  S.TimeoutSeconds = 10;
  S.Gap = 1e-6;
  return S;
}

/// The plan's gain as text.
std::string gain(const OsdpProfileEntry &E, const OsdpOptions &O,
                 Statistics &Stats) {
  auto Start = Clock::now();
  auto Plan = planOsdp(E, O, precisely());
  Stats.WorstMilliseconds =
      std::max(Stats.WorstMilliseconds, millisecondsSince(Start));
  if (!Plan || !Plan->Result.Best)
    return "-";
  ++Stats.Solved;
  Stats.WithinGap += Plan->Result.Why == StopReason::Gap;
  bool Proven = Plan->Result.Why == StopReason::Optimal ||
                Plan->Result.Why == StopReason::Gap;
  Stats.Unproven += !Proven;
  char Text[32];
  std::snprintf(Text, sizeof(Text), "%.3f%s",
                Plan->AllShardedSeconds / Plan->Seconds, Proven ? "" : "*");
  return Text;
}

void printPublished(const std::vector<OsdpProfileEntry> &Profile) {
  for (const OsdpProfileEntry &E : Profile) {
    if (E.Hidden != 1536 || E.BatchIndex != 1)
      continue;
    OsdpOptions O;
    O.Layers = 48;
    O.Megabytes = 7392;
    auto Start = Clock::now();
    auto Plan = planOsdp(E, O, precisely());
    double Took = millisecondsSince(Start);
    if (!Plan || !Plan->Result.Best)
      continue;
    std::printf("48 layers, hidden 1536, batch index 1, 7392 MB: layers with "
                "nothing, the MLP, attention, both sharded: %lld, %lld, %lld, "
                "%lld; %.3f s, all sharded %.3f s; %s in %.1f ms.\n\n",
                static_cast<long long>(Plan->Count[0]),
                static_cast<long long>(Plan->Count[1]),
                static_cast<long long>(Plan->Count[2]),
                static_cast<long long>(Plan->Count[3]), Plan->Seconds,
                Plan->AllShardedSeconds, nameOf(Plan->Result.Why), Took);
  }
}

void printEntry(const OsdpProfileEntry &E, OsdpOptions O, Statistics &Stats) {
  double All = static_cast<double>(O.Layers) * E.Megabytes[3];
  double None = static_cast<double>(O.Layers) * E.Megabytes[0];
  std::printf(
      "| %lld | %lld | %.0f to %.0f |", static_cast<long long>(E.Hidden),
      static_cast<long long>(E.BatchIndex), std::ceil(All), std::ceil(None));
  for (double Part : Parts) {
    O.Megabytes = std::ceil(All + Part * (None - All));
    O.Slices = 1;
    std::string Whole = gain(E, O, Stats);
    O.Slices = 4;
    O.SecondsPerSlice = 0;
    std::string Free = gain(E, O, Stats);
    O.SecondsPerSlice = 1e-4;
    std::string Charged = gain(E, O, Stats);
    std::printf(" %s / %s / %s |", Whole.c_str(), Free.c_str(),
                Charged.c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
}

/// The best batch if everything is sharded, as relative throughput.
double allShardedThroughput(const std::vector<OsdpProfileEntry> &Profile,
                            int64_t Hidden, const OsdpOptions &O) {
  double Best = 0;
  auto Layers = static_cast<double>(O.Layers);
  for (const OsdpProfileEntry &E : Profile)
    if (E.Hidden == Hidden && Layers * E.Megabytes[3] <= O.Megabytes)
      Best = std::max(Best, relativeBatch(E) / (Layers * E.Seconds[3]));
  return Best;
}

void printBatches(const std::vector<OsdpProfileEntry> &Profile, int64_t Hidden,
                  OsdpOptions O) {
  for (double Limit : Limits) {
    O.Megabytes = Limit;
    auto Best = planOsdpBatch(Profile, Hidden, O, precisely());
    std::printf("| %lld | %.0f |", static_cast<long long>(Hidden), Limit);
    if (!Best || !*Best) {
      std::printf(" - | - |\n");
      continue;
    }
    const OsdpPlan &Plan = **Best;
    double Sharded = allShardedThroughput(Profile, Hidden, O);
    std::printf(" %lld | ", static_cast<long long>(Plan.Profile.BatchIndex));
    if (Sharded > 0)
      std::printf("%.3f |\n",
                  relativeBatch(Plan.Profile) / Plan.Seconds / Sharded);
    else
      std::printf("all sharded does not fit |\n");
  }
}

} // namespace

int main(int Argc, char **Argv) {
  if (Argc < 2) {
    std::fprintf(stderr, "usage: %s profile.json [layers]\n", Argv[0]);
    return 2;
  }
  auto Text = readFile(Argv[1]);
  auto Profile = Text ? parseOsdpProfile(*Text) : Text.error();
  if (!Profile) {
    std::fprintf(stderr, "error: %s\n", Profile.error().Message.c_str());
    return 2;
  }
  OsdpOptions O;
  O.Layers = Argc > 2 ? std::atoll(Argv[2]) : 48;
  printPublished(*Profile);
  std::printf("| hidden | batch index | MB: all to nothing sharded |");
  for (double Part : Parts)
    std::printf(" %.0f %% |", 100 * Part);
  std::printf("\n|---|---|---|---|---|---|---|---|---|\n");
  std::set<int64_t> Sizes;
  Statistics Stats;
  for (const OsdpProfileEntry &E : *Profile) {
    printEntry(E, O, Stats);
    Sizes.insert(E.Hidden);
  }
  std::printf("\n%d plans, %d of them stopped at a gap of 1e-6, %d not "
              "proven (*); the slowest took %.0f ms.\n\n",
              Stats.Solved, Stats.WithinGap, Stats.Unproven,
              Stats.WorstMilliseconds);
  std::printf("| hidden | limit in MB | best batch index | throughput over the "
              "best all-sharded batch |\n|---|---|---|---|\n");
  for (int64_t Hidden : Sizes)
    printBatches(*Profile, Hidden, O);
  return 0;
}
