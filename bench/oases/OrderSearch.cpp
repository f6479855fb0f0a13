//===- OrderSearch.cpp - A long search for an order of units --------------===//

#include "OrderSearch.h"
#include "OrderProgram/Player.h"
#include "heddle/Support/Random.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <ctime>
#include <map>

using namespace heddle;
using namespace heddle::bench;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

static double getTime() { return double(std::clock()) / CLOCKS_PER_SEC; }

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

namespace {
class ListSearch {
public:
  explicit ListSearch(const UnitGraph &graph)
      : player(graph, {}), turns(getTurns(graph)),
        most(*llvm::max_element(turns)) {
    std::map<std::pair<int32_t, double>, int32_t> kinds;
    for (const Unit &unit : graph.units) {
      part.push_back(unit.after.empty() ? parts++ : part[unit.after.front()]);
      kind.push_back(
          int32_t(kinds.try_emplace({unit.queue, unit.seconds}, kinds.size())
                      .first->second));
    }
    curves = size_t(parts - 1) * kKnots;
    numbers = curves + kinds.size();
  }

  /// Returns the best schedule that is found until `end` (getTime).
  Schedule run(double end, Random &random) {
    // A climb ends after this number of changes without a gain.
    constexpr int kPatience = 400;
    std::optional<Schedule> best;
    Numbers bestList;
    while (!best || getTime() < end) {
      bool continues = best && random.below(3) == 0;
      Numbers list = continues ? bestList : makeList(random);
      double seconds = kInfinity;
      for (int vain = 0; vain < kPatience && getTime() < end; ++vain) {
        Numbers next = list;
        if (seconds < kInfinity)
          change(next, random);
        std::optional<Schedule> found = player.play(getRanks(next), seconds);
        if (!found || found->seconds > seconds)
          continue;
        if (found->seconds < seconds * (1 - 1e-6))
          vain = 0;
        seconds = found->seconds;
        list = std::move(next);
        if (!best || seconds < best->seconds) {
          best = std::move(found);
          bestList = list;
        }
      }
    }
    return *best;
  }

private:
  /// The numbers that describe a list. First come, for each part but the first,
  /// its lags at kKnots places along the program. Then comes the delay of each
  /// kind of unit. Lags and delays are fractions of the program's length.
  using Numbers = std::vector<double>;
  static constexpr size_t kKnots = 7;

  Numbers makeList(Random &random) const {
    Numbers list(numbers);
    double lag = 0.6 * random.unit(),
           shrinks = random.below(2) ? random.unit() : 0;
    for (size_t i = 0; i < curves; ++i)
      list[i] = lag * (1 - shrinks * double(i % kKnots) / (kKnots - 1)) +
                0.05 * (random.unit() - 0.5);
    if (random.below(2))
      for (size_t i = curves; i < numbers; ++i)
        list[i] = 0.3 * (random.unit() - 0.5);
    return list;
  }

  static void change(Numbers &list, Random &random) {
    double size = 0.3 * std::pow(10, -3 * random.unit());
    for (uint64_t i = 0, count = 1 + random.below(3); i < count; ++i)
      list[random.below(list.size())] += size * (random.unit() - 0.5);
  }

  std::vector<double> getRanks(const Numbers &list) const {
    std::vector<double> rank(turns.size());
    for (size_t unit = 0; unit < rank.size(); ++unit) {
      double at = turns[unit] / most * (kKnots - 1);
      size_t knot = std::min(size_t(at), kKnots - 2);
      double later = list[curves + kind[unit]];
      // Each part lags behind the part before it, so the lags add up.
      for (int32_t i = 0; i < part[unit]; ++i) {
        const double *lags = &list[size_t(i) * kKnots + knot];
        later += lags[0] + (at - double(knot)) * (lags[1] - lags[0]);
      }
      rank[unit] = turns[unit] + most * later;
    }
    return rank;
  }

  Player player;
  std::vector<double> turns;
  double most;
  std::vector<int32_t> part, kind; // of each unit
  int32_t parts = 0;
  size_t curves;  ///< how many numbers of a list are lags
  size_t numbers; ///< how many numbers a list has
};

//===----------------------------------------------------------------------===//
// Fixed orders
//===----------------------------------------------------------------------===//

/// A fixed order of the units of each queue, and the start of each unit if the
/// queues keep this order.
class Orders {
public:
  explicit Orders(const UnitGraph &graph)
      : graph(graph), later(graph.units.size(), [&](auto add) {
          for (auto [number, unit] : llvm::enumerate(graph.units))
            for (int32_t earlier : unit.after)
              add(earlier, int32_t(number));
        }) {}

  void set(const Schedule &schedule) {
    before.assign(graph.units.size(), -1);
    behind = before;
    std::vector<int32_t> last(graph.queues, -1);
    for (int32_t unit : schedule.order) {
      int32_t &previous = last[graph.units[unit].queue];
      before[unit] = previous;
      if (previous >= 0)
        behind[previous] = unit;
      previous = unit;
    }
    play();
  }

  double getSeconds() const { return seconds; }

  /// Returns the unit before another one on its queue; -1 if there is none.
  int32_t getBefore(int32_t unit) const { return before[unit]; }

  /// Exchanges a unit and the one before it on its queue.
  void swap(int32_t unit) {
    int32_t other = before[unit], first = before[other], next = behind[unit];
    before[unit] = first;
    before[other] = unit;
    behind[unit] = other;
    behind[other] = next;
    if (first >= 0)
      behind[first] = unit;
    if (next >= 0)
      before[next] = other;
    play();
  }

  /// Finds the units of a longest path that could be swapped with the unit
  /// before them on their queue. Such a unit starts when the unit before it
  /// ends, and does not need its result.
  void findSwaps(std::vector<int32_t> &swaps, Random &random) const {
    swaps.clear();
    for (int32_t unit = last; unit >= 0;) {
      int32_t other = before[unit], next = -1;
      for (int32_t earlier : graph.units[unit].after)
        if (delays(earlier, unit))
          next = earlier;
      if (other >= 0 && delays(other, unit)) {
        if (!llvm::is_contained(graph.units[unit].after, other))
          swaps.push_back(unit);
        if (next < 0 || random.below(2) == 0)
          next = other;
      }
      unit = next;
    }
  }

private:
  double getEnd(int32_t unit) const {
    return start[unit] + graph.units[unit].seconds;
  }
  bool delays(int32_t earlier, int32_t unit) const {
    return getEnd(earlier) >= start[unit] * (1 - 1e-12);
  }

  void play() {
    size_t count = graph.units.size();
    start.assign(count, 0);
    waits.resize(count);
    ready.clear();
    for (size_t unit = 0; unit < count; ++unit) {
      waits[unit] =
          int32_t(graph.units[unit].after.size()) + (before[unit] >= 0);
      if (waits[unit] == 0)
        ready.push_back(int32_t(unit));
    }
    seconds = 0;
    for (size_t i = 0; i < ready.size(); ++i) {
      int32_t unit = ready[i];
      double end = getEnd(unit);
      if (end > seconds) {
        seconds = end;
        last = unit;
      }
      auto release = [&](int32_t next) {
        start[next] = std::max(start[next], end);
        if (--waits[next] == 0)
          ready.push_back(next);
      };
      llvm::for_each(later[unit], release);
      if (behind[unit] >= 0)
        release(behind[unit]);
    }
  }

  const UnitGraph &graph;
  NumberLists later;                   ///< the reverse of Unit::after
  std::vector<int32_t> before, behind; ///< neighbours on the queue
  std::vector<double> start;
  std::vector<int32_t> waits, ready; ///< of `play`
  double seconds = 0;
  int32_t last = -1; ///< the unit that ends last
};
} // namespace

/// Changes the orders by simulated annealing. Returns the seconds of the
/// shortest schedule found, or `best` if none is shorter.
static double anneal(Orders &orders, double best, double hot, double end,
                     Random &random) {
  constexpr int64_t kSteps = 100'000;
  constexpr double kCold = 1e-5; // a fraction of `best`, like `hot`
  std::vector<int32_t> swaps;
  for (int64_t step = 0; step < kSteps && getTime() < end; ++step) {
    double seconds = orders.getSeconds();
    best = std::min(best, seconds);
    orders.findSwaps(swaps, random);
    if (swaps.empty())
      break; // No order is shorter than a longest path without swaps.
    int32_t unit = swaps[random.below(swaps.size())];
    int32_t other = orders.getBefore(unit);
    orders.swap(unit);
    double heat = best * hot * std::pow(kCold / hot, double(step) / kSteps);
    double longer = orders.getSeconds() - seconds;
    if (longer > 0 && random.unit() >= std::exp(-longer / heat))
      orders.swap(other);
  }
  return best;
}

double heddle::bench::searchOrders(const UnitGraph &graph,
                                   llvm::ArrayRef<Schedule> starts,
                                   double time) {
  double begin = getTime(), end = begin + time;
  Random random(1);
  std::vector<Schedule> known(starts.begin(), starts.end());
  known.push_back(ListSearch(graph).run(begin + time / 2, random));
  double best = kInfinity;
  for (const Schedule &schedule : known)
    best = std::min(best, schedule.seconds);
  Orders orders(graph);
  for (size_t round = 0; getTime() < end; ++round) {
    orders.set(known[known.size() - 1 - round % known.size()]);
    double hot = 3e-3 * std::pow(0.5, double(round / known.size() % 4));
    best = anneal(orders, best, hot, end, random);
  }
  return best;
}
