//===- oases_table.cpp - Oases' plans per half-layer ----------------------===//
//
// heddle-oases-table profile_3090.json
//
// Prints a table as Markdown: one row for each of the paper's models that the
// profile covers, and each global batch with at least two profiled degrees. A
// row has the times of three plans: the optimum with a degree for each
// half-layer, the best uniform degree that fits, and the plan that Oases
// executes after it has reduced the optimum to two degrees.
//
//===----------------------------------------------------------------------===//

#include "heddle/Solver/Oases.h"
#include "heddle/Solver/ProblemIO.h"

#include <cstdio>
#include <map>

using namespace heddle::solver;

namespace {

std::string milliseconds(const Problem &p, const Assignment &a) {
  auto value = evaluate(p, a);
  if (!value || !value->isFeasible())
    return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f",
                static_cast<double>(value->total) / 1e6);
  return text;
}

/// Returns the number of half-layers of each degree, e.g. `32:4 8:44`.
std::string degrees(const OasesProblem &p, const Assignment &a) {
  std::map<int64_t, int> count;
  for (int32_t s : a)
    ++count[p.degrees[s]];
  std::string text;
  for (auto [degree, n] : count)
    text += (text.empty() ? "" : " ") + std::to_string(degree) + ":" +
            std::to_string(n);
  return text;
}

void printModel(const std::vector<OasesProfileRow> &profile, int64_t hidden,
                int64_t layers) {
  for (int64_t batch = 2; batch <= 2048; batch *= 2) {
    OasesOptions o;
    o.hidden = hidden;
    o.layers = layers;
    o.globalBatch = batch;
    auto p = oasesProblem(profile, o);
    if (!p || p->degrees.size() < 2)
      continue;
    SolveOptions s;
    s.threads = 1;
    auto result = solve(p->instance, s);
    if (!result)
      continue;
    std::printf("| %lld | %lld | %lld | ", static_cast<long long>(hidden),
                static_cast<long long>(layers), static_cast<long long>(batch));
    if (!result->best) {
      std::printf("%s | | | |\n", nameOf(result->why));
      continue;
    }
    std::string uniform = "-";
    Cost least = kInfiniteCost;
    for (size_t d = 0; d < p->degrees.size(); ++d) {
      Assignment a(p->instance.nodes.size(), static_cast<int32_t>(d));
      auto value = evaluate(p->instance, a);
      if (value->isFeasible() && value->total < least) {
        least = value->total;
        uniform = milliseconds(p->instance, a) + " (" +
                  std::to_string(p->degrees[d]) + ")";
      }
    }
    std::printf(
        "%s (%s) | %s | %s | %s |\n",
        milliseconds(p->instance, *result->best).c_str(), nameOf(result->why),
        uniform.c_str(),
        milliseconds(p->instance, collapseOasesPlan(*p, *result->best)).c_str(),
        degrees(*p, *result->best).c_str());
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s profile.json\n", argv[0]);
    return 2;
  }
  auto text = readFile(argv[1]);
  auto profile = text ? parseOasesProfile(*text) : text.takeError();
  if (!profile) {
    std::fprintf(stderr, "error: %s\n",
                 llvm::toString(profile.takeError()).c_str());
    return 2;
  }
  std::printf("| hidden | layers | batch | optimum in ms | best uniform in ms "
              "(degree) | collapsed in ms | degree: half-layers |\n"
              "|---|---|---|---|---|---|---|\n");
  // The models of the paper's figures. Those without a profile are skipped.
  const std::pair<int64_t, int64_t> models[] = {
      {1024, 24}, {2048, 24}, {3072, 24}, {4096, 16},
      {6144, 16}, {8192, 8},  {12288, 4}};
  for (auto [hidden, layers] : models)
    printModel(*profile, hidden, layers);
  return 0;
}
