//===- Solve.cpp - The anytime solver -------------------------------------===//

#include "heddle/Solver/Solve.h"
#include "Problem/Components.h"
#include "Search/NearestMiss.h"
#include "Search/PartSolver.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

namespace heddle::solver {

const char *nameOf(StopReason Why) {
  switch (Why) {
  case StopReason::Optimal:
    return "optimal";
  case StopReason::Infeasible:
    return "infeasible";
  case StopReason::Gap:
    return "gap reached";
  case StopReason::Timeout:
    return "timeout";
  case StopReason::WorkLimit:
    return "work limit";
  case StopReason::Interrupted:
    return "interrupted";
  }
  return "unknown";
}

namespace {

using Clock = std::chrono::steady_clock;

double gapOf(const std::optional<Assignment> &Best, Cost Total, Cost Bound) {
  if (!Best)
    return std::numeric_limits<double>::infinity();
  return Total == 0
             ? 0
             : static_cast<double>(Total - Bound) / static_cast<double>(Total);
}

/// `Count` times `Each`, saturating.
Cost multiply(Cost Each, size_t Count) {
  __int128 Product = static_cast<__int128>(Each) * Count;
  return Product < InfiniteCost ? static_cast<Cost>(Product) : InfiniteCost;
}

/// Works on the parts of a problem in turn, always where most is left between
/// cost and bound.
class Solver {
public:
  Solver(const Problem &P, const SolveOptions &O)
      : P(P), O(O), Start(Clock::now()) {}

  Solution run();

private:
  struct Part {
    std::unique_ptr<PartSolver> Search;
    size_t Count; ///< Parts that equal it, itself included.
    Cost gap() const {
      return multiply(Search->total() - Search->bound(), Count);
    }
  };

  /// Whether it is proven that a part has no assignment.
  static bool hopeless(const Part &Own) {
    return Own.Search->done() && !Own.Search->best();
  }
  double seconds() const {
    return O.SecondsSpent +
           std::chrono::duration<double>(Clock::now() - Start).count();
  }
  bool interrupted() const { return O.Stop && *O.Stop; }
  bool outOfTime() const {
    return interrupted() || seconds() >= O.TimeoutSeconds;
  }
  void setOut();
  Part *mostOpen();
  void update();
  double work() const;
  Assignment join(Assignment (*Of)(const PartSolver &)) const;
  std::optional<StopReason> reasonToStop() const;
  Solution finish(StopReason Why);

  const Problem &P;
  const SolveOptions &O;
  Clock::time_point Start;
  std::vector<Component> Components; ///< None: the problem is in one piece.
  std::vector<Part> Parts;

  std::optional<Assignment> Best;
  Cost Total = InfiniteCost;
  Cost LowerBound = 0;
};

void Solver::setOut() {
  unsigned Threads =
      O.Threads ? O.Threads : std::max(1u, std::thread::hardware_concurrency());
  Random Seeds(O.Seed);
  auto Add = [&](const Problem &Piece, size_t Count) {
    Parts.push_back(
        {std::make_unique<PartSolver>(Piece, Seeds.next(), Threads,
                                      [this] { return outOfTime(); }),
         Count});
  };
  Components = findComponents(P);
  for (const Component &C : Components)
    Add(C.Part, C.Nodes.size());
  if (Components.empty())
    Add(P, 1);
}

/// The first of those where most is left; null if all are done.
Solver::Part *Solver::mostOpen() {
  Part *Chosen = nullptr;
  for (Part &Own : Parts)
    if (!Own.Search->done() && (!Chosen || Own.gap() > Chosen->gap()))
      Chosen = &Own;
  return Chosen;
}

/// What all nodes do, of what the parts' nodes do.
Assignment Solver::join(Assignment (*Of)(const PartSolver &)) const {
  if (Components.empty())
    return Of(*Parts[0].Search);
  Assignment Whole(P.Nodes.size());
  for (size_t I = 0; I < Parts.size(); ++I) {
    Assignment Own = Of(*Parts[I].Search);
    for (const std::vector<uint32_t> &Nodes : Components[I].Nodes)
      for (size_t N = 0; N < Nodes.size(); ++N)
        Whole[Nodes[N]] = Own[N];
  }
  return Whole;
}

/// Sums up what the parts have found and reports what has become better. Only
/// what the independent evaluator confirms counts.
void Solver::update() {
  Cost Sum = 0, Bound = 0;
  bool Found = true;
  for (const Part &Own : Parts) {
    Found &= Own.Search->best().has_value();
    Sum = addCosts(Sum, multiply(Own.Search->total(), Own.Count));
    Bound = addCosts(Bound, multiply(Own.Search->bound(), Own.Count));
  }
  bool Better = false;
  if (Found && Sum < Total) {
    Assignment A = join([](const PartSolver &Own) { return *Own.best(); });
    auto Value = evaluate(P, A);
    if (Value && Value->feasible() && Value->Total < Total) {
      Best = std::move(A);
      Total = Value->Total;
      Better = true;
    }
  }
  Bound = std::min(Bound, Total);
  if (Bound > LowerBound) {
    LowerBound = Bound;
    Better = true;
  }
  if (!Better || !O.OnProgress)
    return;
  Progress Now{seconds(), std::nullopt, LowerBound,
               gapOf(Best, Total, LowerBound)};
  if (Best)
    Now.Best = Total;
  O.OnProgress(Now);
}

double Solver::work() const {
  double Sum = 0;
  for (const Part &Own : Parts)
    Sum += Own.Search->work();
  return Sum;
}

std::optional<StopReason> Solver::reasonToStop() const {
  if (Best && LowerBound >= Total)
    return StopReason::Optimal;
  if (Best && gapOf(Best, Total, LowerBound) <= O.Gap)
    return StopReason::Gap;
  if (interrupted())
    return StopReason::Interrupted;
  if (seconds() >= O.TimeoutSeconds)
    return StopReason::Timeout;
  if (O.WorkLimit && work() >= static_cast<double>(O.WorkLimit))
    return StopReason::WorkLimit;
  return std::nullopt;
}

Solution Solver::finish(StopReason Why) {
  Solution S;
  S.Why = Why;
  S.Best = Best;
  S.Total = Total;
  S.LowerBound = LowerBound;
  S.Gap = gapOf(Best, Total, LowerBound);
  S.Work = static_cast<uint64_t>(work());
  if (Best)
    return S;
  if (Why == StopReason::Infeasible)
    S.Explanation = "every assignment has an infinite cost";
  for (const Part &Own : Parts)
    if (hopeless(Own))
      S.Explanation = Own.Search->explanation();
  S.Miss =
      nearestMiss(P, join([](const PartSolver &Own) { return Own.closest(); }));
  return S;
}

Solution Solver::run() {
  setOut();
  bool Hopeless = false; // then nothing else matters
  for (size_t I = 0; I < Parts.size() && !Hopeless; ++I) {
    Parts[I].Search->start();
    Hopeless = hopeless(Parts[I]);
  }
  for (;;) {
    update();
    Part *Next = mostOpen();
    if (Hopeless || (!Next && !Best)) {
      LowerBound = InfiniteCost;
      return finish(StopReason::Infeasible);
    }
    if (auto Why = reasonToStop())
      return finish(*Why);
    Next->Search->round();
    Hopeless = hopeless(*Next);
  }
}

} // namespace

Expected<Solution> solve(const Problem &P, const SolveOptions &Options) {
  if (auto Violation = validate(P))
    return *Violation;
  Solver S(P, Options);
  return S.run();
}

} // namespace heddle::solver
