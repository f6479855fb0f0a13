//===- osdp_table.cpp - OSDP's plans over memory limits -------------------===//
//
// heddle-osdp-table profile_8gpu.json [layers]
//
// For every hidden size, batch index and a sweep of limits: the throughput of
// the best plan over that of all-sharded, without splitting and with operators
// in four slices (free, and charged for their collectives). "-": nothing fits;
// "inf": all-sharded does not fit. Last, the batch that throughput chooses.
//
//===----------------------------------------------------------------------===//

#include "heddle/Plan/Solver/Osdp.h"
#include "heddle/Plan/Solver/ProblemIO.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>

using namespace heddle::solver;

namespace {

SolveOptions quickly() {
  SolveOptions S;
  S.Threads = 1;
  S.TimeoutSeconds = 30;
  return S;
}

/// The plan's gain as text; a star if it is not proven optimal.
std::string gain(const OsdpProfileEntry &E, const OsdpOptions &O) {
  auto Plan = planOsdp(E, O, quickly());
  if (!Plan || !Plan->Result.Best)
    return "-";
  char Text[32];
  std::snprintf(Text, sizeof(Text), "%.3f%s",
                Plan->AllShardedSeconds / Plan->Seconds,
                Plan->Result.Why == StopReason::Optimal ? "" : "*");
  return Text;
}

void printEntry(const OsdpProfileEntry &E, OsdpOptions O) {
  double All = static_cast<double>(O.Layers) * E.Megabytes[3];
  double None = static_cast<double>(O.Layers) * E.Megabytes[0];
  for (double Part : {0.0, 0.1, 0.25, 0.5, 0.75, 1.0}) {
    O.Megabytes = std::ceil(All + Part * (None - All));
    O.Slices = 1;
    std::string Whole = gain(E, O);
    O.Slices = 4;
    O.SecondsPerSlice = 0;
    std::string Free = gain(E, O);
    O.SecondsPerSlice = 1e-4;
    std::string Charged = gain(E, O);
    std::printf("%6lld %5lld %10.0f %8s %8s %8s\n",
                static_cast<long long>(E.Hidden),
                static_cast<long long>(E.BatchIndex), O.Megabytes,
                Whole.c_str(), Free.c_str(), Charged.c_str());
    std::fflush(stdout);
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
  std::clock_t Start = std::clock();
  std::printf("%6s %5s %10s %8s %8s %8s\n", "hidden", "batch", "limit/MB",
              "whole", "4 free", "4 paid");
  std::set<int64_t> Sizes;
  for (const OsdpProfileEntry &E : *Profile) {
    printEntry(E, O);
    Sizes.insert(E.Hidden);
  }
  std::printf("\n%6s %10s %14s\n", "hidden", "limit/MB", "best batch");
  for (int64_t Hidden : Sizes)
    for (double Limit : {7392.0, 15584.0, 23776.0}) {
      O.Megabytes = Limit;
      O.Slices = 1;
      auto Best = planOsdpBatch(*Profile, Hidden, O, quickly());
      std::string Batch =
          Best && *Best ? std::to_string((*Best)->Profile.BatchIndex) : "-";
      std::printf("%6lld %10.0f %14s\n", static_cast<long long>(Hidden), Limit,
                  Batch.c_str());
    }
  std::printf("processor time %.1f s\n",
              double(std::clock() - Start) / CLOCKS_PER_SEC);
  return 0;
}
