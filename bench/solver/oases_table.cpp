//===- oases_table.cpp - Oases' plans per half-layer ----------------------===//
//
// heddle-oases-table profile_3090.json
//
// Prints a table as Markdown. For every model of the paper that the profile
// covers and every global batch at which two degrees or more can be told: the
// time of the optimum with a degree per half-layer, of the best uniform degree
// that fits, and of what Oases executes after collapsing the optimum to two
// degrees.
//
//===----------------------------------------------------------------------===//

#include "heddle/Solver/Oases.h"
#include "heddle/Solver/ProblemIO.h"

#include <cstdio>
#include <map>

using namespace heddle::solver;

namespace {

std::string milliseconds(const Problem &P, const Assignment &A) {
  auto Value = evaluate(P, A);
  if (!Value || !Value->feasible())
    return "-";
  char Text[32];
  std::snprintf(Text, sizeof(Text), "%.2f",
                static_cast<double>(Value->Total) / 1e6);
  return Text;
}

/// `32:4 8:44`: the degrees and their half-layers.
std::string degrees(const OasesProblem &P, const Assignment &A) {
  std::map<int64_t, int> Count;
  for (int32_t S : A)
    ++Count[P.Degrees[S]];
  std::string Text;
  for (auto [Degree, N] : Count)
    Text += (Text.empty() ? "" : " ") + std::to_string(Degree) + ":" +
            std::to_string(N);
  return Text;
}

void printModel(const std::vector<OasesProfileRow> &Profile, int64_t Hidden,
                int64_t Layers) {
  for (int64_t Batch = 2; Batch <= 2048; Batch *= 2) {
    OasesOptions O;
    O.Hidden = Hidden;
    O.Layers = Layers;
    O.GlobalBatch = Batch;
    auto P = oasesProblem(Profile, O);
    if (!P || P->Degrees.size() < 2)
      continue;
    SolveOptions S;
    S.Threads = 1;
    auto Result = solve(P->Instance, S);
    if (!Result)
      continue;
    std::printf("| %lld | %lld | %lld | ", static_cast<long long>(Hidden),
                static_cast<long long>(Layers), static_cast<long long>(Batch));
    if (!Result->Best) {
      std::printf("%s | | | |\n", nameOf(Result->Why));
      continue;
    }
    std::string Uniform = "-";
    Cost Least = InfiniteCost;
    for (size_t D = 0; D < P->Degrees.size(); ++D) {
      Assignment A(P->Instance.Nodes.size(), static_cast<int32_t>(D));
      auto Value = evaluate(P->Instance, A);
      if (Value->feasible() && Value->Total < Least) {
        Least = Value->Total;
        Uniform = milliseconds(P->Instance, A) + " (" +
                  std::to_string(P->Degrees[D]) + ")";
      }
    }
    std::printf(
        "%s (%s) | %s | %s | %s |\n",
        milliseconds(P->Instance, *Result->Best).c_str(), nameOf(Result->Why),
        Uniform.c_str(),
        milliseconds(P->Instance, collapseOasesPlan(*P, *Result->Best)).c_str(),
        degrees(*P, *Result->Best).c_str());
  }
}

} // namespace

int main(int Argc, char **Argv) {
  if (Argc != 2) {
    std::fprintf(stderr, "usage: %s profile.json\n", Argv[0]);
    return 2;
  }
  auto Text = readFile(Argv[1]);
  auto Profile = Text ? parseOasesProfile(*Text) : Text.error();
  if (!Profile) {
    std::fprintf(stderr, "error: %s\n", Profile.error().Message.c_str());
    return 2;
  }
  std::printf("| hidden | layers | batch | optimum in ms | best uniform in ms "
              "(degree) | collapsed in ms | degree: half-layers |\n"
              "|---|---|---|---|---|---|---|\n");
  // The models of the paper's figures, as far as they are profiled.
  const std::pair<int64_t, int64_t> Models[] = {
      {1024, 24}, {2048, 24}, {3072, 24}, {4096, 16},
      {6144, 16}, {8192, 8},  {12288, 4}};
  for (auto [Hidden, Layers] : Models)
    printModel(*Profile, Hidden, Layers);
  return 0;
}
