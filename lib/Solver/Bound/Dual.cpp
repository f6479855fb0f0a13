//===- Dual.cpp - A lower bound that rises --------------------------------===//

#include "Bound/Dual.h"
#include "Bound/MinPlus.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace heddle::solver {

std::vector<double> priceValues(const Model &m,
                                const std::vector<double> &price) {
  std::vector<double> sum(price.size() + 1, 0);
  for (size_t t = 0; t < price.size(); ++t)
    sum[t + 1] = sum[t] + price[t];
  std::vector<double> result;
  for (const Variable &v : m.vars) {
    size_t first = result.size();
    result.resize(first + v.unary.size(), 0);
    for (const Load &l : v.loads) {
      double perUnit = sum[l.end] - sum[l.begin];
      if (perUnit != 0)
        for (size_t s = 0; s < l.amount.size(); ++s)
          result[first + s] += perUnit * static_cast<double>(l.amount[s]);
    }
  }
  return result;
}

Dual::Dual(const Model &source, const TablePool &tables, const DualState &from)
    : m(&source), tables(&tables), price(source.capacity.size(), 0),
      guess(source.vars.size(), 0) {
  build();
  if (!from.prices.empty())
    price = from.prices;
  for (size_t id = 0; id < from.messages.size(); ++id)
    std::ranges::copy(from.messages[id],
                      messages.begin() + fixed->messageToA[id]);
  rebuildUnary();
}

void Dual::build() {
  auto l = std::make_shared<Layout>();
  l->offsets.push_back(0);
  for (const Variable &v : m->vars)
    l->offsets.push_back(l->offsets.back() + v.unary.size());
  size_t messageCount = 0;
  l->earlier.resize(m->vars.size());
  l->later.resize(m->vars.size());
  for (size_t id = 0; id < m->pairs.size(); ++id) {
    const Pair &p = m->pairs[id];
    int32_t sizeA = m->vars[p.a].size(), sizeB = m->vars[p.b].size();
    size_t toA = messageCount, toB = messageCount + sizeA;
    messageCount += sizeA + sizeB;
    l->messageToA.push_back(toA);
    l->messageToB.push_back(toB);
    const double *plain = tables->getTable(id);
    const double *transposed = tables->getTransposed(id);
    (p.b > p.a ? l->later : l->earlier)[p.a].push_back(
        {p.b, sizeB, plain, transposed, toA, toB});
    (p.a > p.b ? l->later : l->earlier)[p.b].push_back(
        {p.a, sizeA, transposed, plain, toB, toA});
  }
  messages.assign(messageCount, 0);
  fixed = std::move(l);
}

/// Computes `unary` from the model, prices and messages. Passes update it in
/// place, so that rounding errors would add up.
void Dual::rebuildUnary() {
  unary = priceValues(*m, price);
  for (size_t v = 0; v < m->vars.size(); ++v) {
    double *own = unary.data() + fixed->offsets[v];
    for (Cost c : m->vars[v].unary)
      *own++ += tables->convert(c);
  }
  for (size_t id = 0; id < m->pairs.size(); ++id)
    for (int32_t var : {m->pairs[id].a, m->pairs[id].b})
      addTo(unary.data() + fixed->offsets[var],
            messages.data() + (var == m->pairs[id].a ? fixed->messageToA[id]
                                                     : fixed->messageToB[id]),
            fixed->offsets[var + 1] - fixed->offsets[var]);
}

void Dual::setPrices(const std::vector<double> &prices) {
  price = prices;
  rebuildUnary();
}

DualState Dual::getState() const {
  DualState state{price, {}};
  for (size_t id = 0; id < m->pairs.size(); ++id) {
    const Pair &p = m->pairs[id];
    auto first = messages.begin() + fixed->messageToA[id];
    state.messages.emplace_back(first, first + m->vars[p.a].size() +
                                           m->vars[p.b].size());
  }
  return state;
}

/// Shares the unary costs of `var` among the pairs ahead. Each of these pairs
/// then moves the least entry for every value of its other variable to that
/// variable. The bound does not fall.
void Dual::push(int32_t var, const std::vector<Link> &ahead,
                const std::vector<Link> &behind) {
  if (ahead.empty())
    return;
  double share =
      1.0 / static_cast<double>(std::max(ahead.size(), behind.size()));
  double *own = unary.data() + fixed->offsets[var];
  size_t size = fixed->offsets[var + 1] - fixed->offsets[var];
  for (const Link &l : ahead) {
    double *toOwn = messages.data() + l.toOwn;
    double *toOther = messages.data() + l.toOther;
    double *other = unary.data() + fixed->offsets[l.other];
    for (size_t s = 0; s < size; ++s)
      toOwn[s] -= share * own[s];
    scratch.resize(std::max<size_t>(scratch.size(), l.size));
    minMinusRows(l.table, toOwn, size, l.size, scratch.data());
    for (int32_t t = 0; t < l.size; ++t) {
      other[t] += scratch[t] - toOther[t];
      toOther[t] = scratch[t];
    }
  }
  double left = 1 - share * static_cast<double>(ahead.size());
  for (size_t s = 0; s < size; ++s)
    own[s] *= left;
}

void Dual::pass() {
  if (++passes % 64 == 0)
    rebuildUnary();
  auto count = static_cast<int32_t>(m->vars.size());
  for (int32_t v = count; v-- > 0;)
    push(v, fixed->earlier[v], fixed->later[v]);
  decode();
  for (int32_t v = 0; v < count; ++v)
    push(v, fixed->later[v], fixed->earlier[v]);
  settled = true;
}

/// Sets `sum` to the cost of every value of a variable. The variables at the
/// other ends of the `decided` links have their values in `x`; all others are
/// represented by their messages.
void Dual::priceDecided(size_t var, const std::vector<Link> &decided,
                        const Labels &x, std::vector<double> &sum) const {
  const double *own = unary.data() + fixed->offsets[var];
  sum.assign(own, own + (fixed->offsets[var + 1] - fixed->offsets[var]));
  for (const Link &l : decided) {
    const double *row = l.transposed + x[l.other] * sum.size();
    const double *toOwn = messages.data() + l.toOwn;
    for (size_t s = 0; s < sum.size(); ++s)
      sum[s] += row[s] - toOwn[s];
  }
}

/// Chooses the guess, first variable to last. After a backward pass, the unary
/// costs of a variable include its later neighbours' costs; the earlier
/// neighbours have their values already.
void Dual::decode() {
  for (size_t v = 0; v < m->vars.size(); ++v) {
    priceDecided(v, fixed->earlier[v], guess, scratch);
    guess[v] = static_cast<int32_t>(std::ranges::min_element(scratch) -
                                    scratch.begin());
  }
}

/// Chooses values from the last variable to the first. After a forward pass,
/// the unary costs of a variable include its earlier neighbours' costs; the
/// later neighbours have their values already.
Labels Dual::sample(double noise, double priceFactor, Random &r) const {
  Labels x(m->vars.size());
  std::vector<double> priced = priceValues(*m, price);
  std::vector<double> sum;
  for (size_t v = m->vars.size(); v-- > 0;) {
    priceDecided(v, fixed->later[v], x, sum);
    for (size_t s = 0; s < sum.size(); ++s)
      sum[s] +=
          noise * r.unit() + (priceFactor - 1) * priced[fixed->offsets[v] + s];
    x[v] = static_cast<int32_t>(std::ranges::min_element(sum) - sum.begin());
  }
  return x;
}

double Dual::leastOf(int32_t var) const {
  return least(unary.data() + fixed->offsets[var],
               fixed->offsets[var + 1] - fixed->offsets[var]);
}

double Dual::leastOfPair(size_t id) const {
  const Pair &p = m->pairs[id];
  double least = entry(id, 0, 0);
  for (int32_t a = 0; a < m->vars[p.a].size(); ++a)
    for (int32_t b = 0; b < m->vars[p.b].size(); ++b)
      least = std::min(least, entry(id, a, b));
  return least;
}

double Dual::getBound() const {
  auto sum = static_cast<double>(m->constant);
  for (size_t v = 0; v < m->vars.size(); ++v)
    sum += leastOf(static_cast<int32_t>(v));
  if (!settled)
    for (size_t id = 0; id < m->pairs.size(); ++id)
      sum += leastOfPair(id);
  for (size_t t = 0; t < price.size(); ++t)
    sum -= price[t] * static_cast<double>(m->capacity[t]);
  return sum;
}

double Dual::getRounding() const {
  // A sum may be off by some units in the last place of its largest term. Only
  // the error of a variable's least value counts. A forbidden value has huge
  // terms, and so a huge error, but it is far from being the least.
  constexpr double kRelative = 1e-12;
  std::vector<double> terms = priceValues(*m, price);
  for (size_t v = 0; v < m->vars.size(); ++v) {
    double *own = terms.data() + fixed->offsets[v];
    for (Cost c : m->vars[v].unary)
      *own++ += std::abs(tables->convert(c));
  }
  for (size_t id = 0; id < m->pairs.size(); ++id)
    for (auto [var, first] :
         {std::pair(m->pairs[id].a, fixed->messageToA[id]),
          std::pair(m->pairs[id].b, fixed->messageToB[id])}) {
      double *own = terms.data() + fixed->offsets[var];
      size_t size = fixed->offsets[var + 1] - fixed->offsets[var];
      for (size_t s = 0; s < size; ++s)
        own[s] += std::abs(messages[first + s]);
    }
  double size = std::abs(static_cast<double>(m->constant)) + 1e-6;
  for (size_t t = 0; t < price.size(); ++t)
    size += price[t] * std::abs(static_cast<double>(m->capacity[t]));
  double sum = size * kRelative;
  for (size_t v = 0; v < m->vars.size(); ++v) {
    double least = std::numeric_limits<double>::infinity(), lowered = least;
    for (size_t i = fixed->offsets[v]; i < fixed->offsets[v + 1]; ++i) {
      least = std::min(least, unary[i]);
      lowered = std::min(lowered, unary[i] - kRelative * terms[i]);
    }
    sum += least - lowered;
  }
  return sum;
}

void Dual::stepPrices(double target, double scale) {
  std::vector<Usage> used = usageOf(*m, guess);
  if (averageUsage.empty())
    averageUsage.assign(used.begin(), used.end());
  double norm = 0;
  std::vector<double> excess(price.size());
  for (size_t t = 0; t < price.size(); ++t) {
    averageUsage[t] += 0.1 * (static_cast<double>(used[t]) - averageUsage[t]);
    excess[t] = averageUsage[t] - static_cast<double>(m->capacity[t]);
    if (excess[t] < 0 && price[t] <= 0)
      excess[t] = 0;
    norm += excess[t] * excess[t];
  }
  // A cost found early may be many times the optimum: aiming there would
  // overshoot.
  double bound = getBound();
  double gap =
      std::min(target - bound, std::max(0.5 * std::abs(bound), 0.01 * target));
  if (norm <= 0 || gap <= 0)
    return;
  double step = scale * gap / norm;
  std::vector<double> next(price);
  for (size_t t = 0; t < price.size(); ++t)
    next[t] = std::max(0.0, price[t] + step * excess[t]);
  setPrices(next);
}

std::vector<std::vector<double>> Dual::valueBounds() const {
  double base = getBound();
  std::vector<std::vector<double>> result;
  for (size_t v = 0; v < m->vars.size(); ++v) {
    double least = leastOf(static_cast<int32_t>(v));
    auto &row = result.emplace_back(unary.data() + fixed->offsets[v],
                                    unary.data() + fixed->offsets[v + 1]);
    for (double &c : row)
      c += base - least;
  }
  std::vector<double> ofA, ofB;
  for (size_t id = 0; id < m->pairs.size(); ++id) {
    const Pair &p = m->pairs[id];
    double least = leastOfPair(id);
    ofA.assign(m->vars[p.a].size(), 4e18);
    ofB.assign(m->vars[p.b].size(), 4e18);
    for (size_t a = 0; a < ofA.size(); ++a)
      for (size_t b = 0; b < ofB.size(); ++b) {
        double c = entry(id, a, b);
        ofA[a] = std::min(ofA[a], c);
        ofB[b] = std::min(ofB[b], c);
      }
    for (size_t a = 0; a < ofA.size(); ++a)
      result[p.a][a] += ofA[a] - least;
    for (size_t b = 0; b < ofB.size(); ++b)
      result[p.b][b] += ofB[b] - least;
  }
  return result;
}

Dual::Reduced Dual::reducedCosts() const {
  Reduced r;
  r.bound = getBound();
  r.rounding = getRounding();
  for (size_t v = 0; v < m->vars.size(); ++v) {
    double least = leastOf(static_cast<int32_t>(v));
    auto &row = r.unary.emplace_back(unary.data() + fixed->offsets[v],
                                     unary.data() + fixed->offsets[v + 1]);
    for (double &c : row)
      c -= least;
  }
  for (size_t id = 0; id < m->pairs.size(); ++id) {
    const Pair &p = m->pairs[id];
    double least = leastOfPair(id);
    auto &table = r.pairs.emplace_back();
    table.reserve(p.table.size());
    for (int32_t a = 0; a < m->vars[p.a].size(); ++a)
      for (int32_t b = 0; b < m->vars[p.b].size(); ++b)
        table.push_back(entry(id, a, b) - least);
  }
  return r;
}

namespace {

/// Finds messages by the name (ModelNames) of the variable that receives them
/// and the name of the pair's other variable.
class Messages {
public:
  Messages(const DualState &state, const Model &m, const ModelNames &names)
      : state(state), names(names) {
    for (size_t id = 0; id < state.messages.size(); ++id) {
      int32_t a = names.vars[m.pairs[id].a], b = names.vars[m.pairs[id].b];
      pairs[key(a, b)] = {id, 0, m.pairs[id].a};
      pairs[key(b, a)] = {id, m.vars[m.pairs[id].a].unary.size(),
                          m.pairs[id].b};
    }
  }

  /// Appends the messages to the values of `var` with these names, from its
  /// pair with `other`; 0 for a message that the state lacks.
  void append(int32_t var, int32_t other, const std::vector<int32_t> &values,
              std::vector<double> &out) const {
    auto found = pairs.find(key(var, other));
    if (found == pairs.end()) {
      out.resize(out.size() + values.size(), 0);
      return;
    }
    const auto &[id, first, own] = found->second;
    const std::vector<int32_t> &known = names.values[own];
    for (int32_t value : values) {
      auto at = std::ranges::find(known, value);
      out.push_back(at == known.end()
                        ? 0
                        : state.messages[id][first + (at - known.begin())]);
    }
  }

private:
  static uint64_t key(int32_t a, int32_t b) {
    return static_cast<uint64_t>(a) << 32 | static_cast<uint32_t>(b);
  }
  struct Place {
    size_t id, first;
    int32_t own;
  };
  const DualState &state;
  const ModelNames &names;
  std::unordered_map<uint64_t, Place> pairs;
};

} // namespace

DualState carryOver(const DualState &state, const Model &from,
                    const ModelNames &fromNames, const Model &to,
                    const ModelNames &toNames) {
  DualState result;
  result.prices.assign(toNames.times.size(), 0);
  for (size_t t = 0; t < state.prices.size() && !result.prices.empty(); ++t) {
    size_t next = std::ranges::lower_bound(toNames.times, fromNames.times[t]) -
                  toNames.times.begin();
    result.prices[std::min(next, result.prices.size() - 1)] += state.prices[t];
  }
  Messages known(state, from, fromNames);
  for (const Pair &p : to.pairs) {
    int32_t a = toNames.vars[p.a], b = toNames.vars[p.b];
    auto &row = result.messages.emplace_back();
    known.append(a, b, toNames.values[p.a], row);
    known.append(b, a, toNames.values[p.b], row);
  }
  return result;
}

} // namespace heddle::solver
