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

const char *nameOf(StopReason why) {
  switch (why) {
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

double gapOf(const std::optional<Assignment> &best, Cost total, Cost bound) {
  if (!best)
    return std::numeric_limits<double>::infinity();
  return total == 0
             ? 0
             : static_cast<double>(total - bound) / static_cast<double>(total);
}

/// `count` times `each`, saturating.
Cost multiply(Cost each, size_t count) {
  __int128 product = static_cast<__int128>(each) * count;
  return product < kInfiniteCost ? static_cast<Cost>(product) : kInfiniteCost;
}

/// Works on the independent parts of a problem in turn, always on the one with
/// the largest gap between cost and bound.
class Solver {
public:
  Solver(const Problem &p, const SolveOptions &o)
      : p(p), o(o), start(Clock::now()) {}

  Solution run();

private:
  struct Part {
    std::unique_ptr<PartSolver> search;
    size_t count; ///< The number of equal parts, including this one.
    Cost gap() const {
      return multiply(search->getTotal() - search->getBound(), count);
    }
  };

  /// Whether it is proven that a part has no assignment.
  static bool isHopeless(const Part &own) {
    return own.search->isDone() && !own.search->getBest();
  }
  double seconds() const {
    return o.secondsSpent +
           std::chrono::duration<double>(Clock::now() - start).count();
  }
  bool interrupted() const { return o.stop && *o.stop; }
  bool outOfTime() const {
    return interrupted() || seconds() >= o.timeoutSeconds;
  }
  void setOut();
  Part *mostOpen();
  void update();
  double getWork() const;
  Assignment join(Assignment (*of)(const PartSolver &)) const;
  std::optional<StopReason> reasonToStop() const;
  Solution finish(StopReason why);

  const Problem &p;
  const SolveOptions &o;
  Clock::time_point start;
  std::vector<Component> components; ///< empty if the problem cannot be split
  std::vector<Part> parts;

  std::optional<Assignment> best;
  Cost total = kInfiniteCost;
  Cost lowerBound = 0;
};

void Solver::setOut() {
  unsigned threads =
      o.threads ? o.threads : std::max(1u, std::thread::hardware_concurrency());
  Random seeds(o.seed);
  auto add = [&](const Problem &piece, size_t count) {
    parts.push_back(
        {std::make_unique<PartSolver>(piece, seeds.next(), threads,
                                      [this] { return outOfTime(); }),
         count});
  };
  components = findComponents(p);
  for (const Component &c : components)
    add(c.part, c.nodes.size());
  if (components.empty())
    add(p, 1);
}

/// The part that is not done and has the largest gap; null if all are done.
Solver::Part *Solver::mostOpen() {
  Part *chosen = nullptr;
  for (Part &own : parts)
    if (!own.search->isDone() && (!chosen || own.gap() > chosen->gap()))
      chosen = &own;
  return chosen;
}

/// Joins the parts' assignments to one of the whole problem.
Assignment Solver::join(Assignment (*of)(const PartSolver &)) const {
  if (components.empty())
    return of(*parts[0].search);
  Assignment whole(p.nodes.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    Assignment own = of(*parts[i].search);
    for (const std::vector<uint32_t> &nodes : components[i].nodes)
      for (size_t n = 0; n < nodes.size(); ++n)
        whole[nodes[n]] = own[n];
  }
  return whole;
}

/// Joins the results of the parts to those of the whole problem and reports
/// improvements. An assignment counts only if `evaluate` confirms its cost.
void Solver::update() {
  Cost sum = 0, bound = 0;
  bool found = true;
  for (const Part &own : parts) {
    found &= own.search->getBest().has_value();
    sum = addCosts(sum, multiply(own.search->getTotal(), own.count));
    bound = addCosts(bound, multiply(own.search->getBound(), own.count));
  }
  bool better = false;
  if (found && sum < total) {
    Assignment a = join([](const PartSolver &own) { return *own.getBest(); });
    std::optional<Evaluation> value = llvm::expectedToOptional(evaluate(p, a));
    if (value && value->isFeasible() && value->total < total) {
      best = std::move(a);
      total = value->total;
      better = true;
    }
  }
  bound = std::min(bound, total);
  if (bound > lowerBound) {
    lowerBound = bound;
    better = true;
  }
  if (!better || !o.onProgress)
    return;
  Progress now{seconds(), std::nullopt, lowerBound,
               gapOf(best, total, lowerBound)};
  if (best)
    now.best = total;
  o.onProgress(now);
}

double Solver::getWork() const {
  double sum = 0;
  for (const Part &own : parts)
    sum += own.search->getWork();
  return sum;
}

std::optional<StopReason> Solver::reasonToStop() const {
  if (best && lowerBound >= total)
    return StopReason::Optimal;
  if (best && gapOf(best, total, lowerBound) <= o.gap)
    return StopReason::Gap;
  if (interrupted())
    return StopReason::Interrupted;
  if (seconds() >= o.timeoutSeconds)
    return StopReason::Timeout;
  if (o.workLimit && getWork() >= static_cast<double>(o.workLimit))
    return StopReason::WorkLimit;
  return std::nullopt;
}

Solution Solver::finish(StopReason why) {
  Solution s;
  s.why = why;
  s.best = best;
  s.total = total;
  s.lowerBound = lowerBound;
  s.gap = gapOf(best, total, lowerBound);
  s.work = static_cast<uint64_t>(getWork());
  if (best)
    return s;
  if (why == StopReason::Infeasible)
    s.explanation = "every assignment has an infinite cost";
  for (const Part &own : parts)
    if (isHopeless(own))
      s.explanation = own.search->getExplanation();
  s.miss =
      nearestMiss(p, join([](const PartSolver &own) { return own.closest(); }));
  return s;
}

Solution Solver::run() {
  setOut();
  bool hopeless = false; // then the whole problem has no assignment
  for (size_t i = 0; i < parts.size() && !hopeless; ++i) {
    parts[i].search->start();
    hopeless = isHopeless(parts[i]);
  }
  for (;;) {
    update();
    Part *next = mostOpen();
    if (hopeless || (!next && !best)) {
      lowerBound = kInfiniteCost;
      return finish(StopReason::Infeasible);
    }
    if (auto why = reasonToStop())
      return finish(*why);
    next->search->round();
    hopeless = isHopeless(*next);
  }
}

} // namespace

llvm::Expected<Solution> solve(const Problem &p, const SolveOptions &options) {
  if (llvm::Error violation = validate(p))
    return violation;
  Solver s(p, options);
  return s.run();
}

} // namespace heddle::solver
