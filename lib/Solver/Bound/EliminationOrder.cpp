//===- EliminationOrder.cpp - In which order to eliminate -----------------===//

#include "Bound/EliminationOrder.h"

#include <algorithm>
#include <queue>

namespace heddle::solver {

namespace {

/// The graph of what is not yet eliminated, over candidate numbers.
class Graph {
public:
  Graph(const Model &M, const std::vector<int32_t> &Candidates)
      : Adjacent(Candidates.size()), Present(Candidates.size(), 1) {
    std::vector<int32_t> Number(M.Vars.size(), -1);
    for (size_t I = 0; I < Candidates.size(); ++I) {
      Number[Candidates[I]] = static_cast<int32_t>(I);
      Sizes.push_back(M.Vars[Candidates[I]].size());
    }
    for (size_t I = 0; I < Candidates.size(); ++I) {
      for (int32_t Id : M.Vars[Candidates[I]].Pairs) {
        int32_t Other = Number[M.Pairs[Id].other(Candidates[I])];
        if (Other >= 0)
          Adjacent[I].push_back(Other);
      }
      std::ranges::sort(Adjacent[I]);
    }
  }

  bool present(int32_t I) const { return Present[I]; }
  const std::vector<int32_t> &neighbours(int32_t I) const {
    return Adjacent[I];
  }
  double tableSize(int32_t I) const {
    double Product = Sizes[I];
    for (int32_t N : Adjacent[I])
      Product *= Sizes[N];
    return Product;
  }

  /// Without joining the neighbours.
  void remove(int32_t I) {
    Present[I] = 0;
    for (int32_t N : Adjacent[I])
      Adjacent[N].erase(std::ranges::lower_bound(Adjacent[N], I));
  }

  void eliminate(int32_t I) {
    remove(I);
    for (int32_t N : Adjacent[I]) {
      Joined.clear();
      std::ranges::set_union(Adjacent[N], Adjacent[I],
                             std::back_inserter(Joined));
      Joined.erase(std::ranges::lower_bound(Joined, N));
      Adjacent[N] = Joined;
    }
  }

private:
  std::vector<std::vector<int32_t>> Adjacent; ///< Sorted.
  std::vector<char> Present;
  std::vector<double> Sizes;
  std::vector<int32_t> Joined;
};

/// The neighbour of `I`, or `I` itself, that ties most together; by chance
/// among similar ones.
int32_t busiest(const Graph &G, int32_t I, Random &R) {
  int32_t Result = I;
  double Best = -1;
  for (int32_t N : G.neighbours(I)) {
    double Score =
        static_cast<double>(G.neighbours(N).size()) * (0.3 + R.unit());
    if (Score > Best) {
      Best = Score;
      Result = N;
    }
  }
  return Result;
}

} // namespace

EliminationOrder chooseOrder(const Model &M,
                             const std::vector<int32_t> &Candidates,
                             double MaxTable, double MaxTotal, Random &R) {
  EliminationOrder Result;
  Graph G(M, Candidates);
  using Entry = std::pair<double, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> Queue;
  std::vector<double> Key(Candidates.size());
  auto Push = [&](int32_t I) { Queue.push({Key[I] = G.tableSize(I), I}); };
  for (size_t I = 0; I < Candidates.size(); ++I)
    Push(static_cast<int32_t>(I));
  std::vector<char> LeftOut(M.Vars.size(), 0);
  while (!Queue.empty()) {
    auto [Size, I] = Queue.top();
    Queue.pop();
    if (!G.present(I) || Key[I] != Size)
      continue;
    if (Size > MaxTable || Result.Total + Size > MaxTotal) {
      int32_t Out = busiest(G, I, R);
      G.remove(Out);
      LeftOut[Candidates[Out]] = 1;
      for (int32_t N : G.neighbours(Out))
        Push(N);
      continue;
    }
    Result.Total += Size;
    G.eliminate(I);
    Result.Vars.push_back(Candidates[I]);
    auto &Separator = Result.Separators.emplace_back();
    for (int32_t N : G.neighbours(I)) {
      Separator.push_back(Candidates[N]);
      Push(N);
    }
  }
  // What was left out later must leave the separators made before.
  for (auto &Separator : Result.Separators)
    std::erase_if(Separator, [&](int32_t V) { return LeftOut[V]; });
  return Result;
}

} // namespace heddle::solver
