//===- Elimination.cpp - Exact optimum of a neighbourhood -----------------===//

#include "Bound/Elimination.h"
#include "Bound/MinPlus.h"

#include <algorithm>
#include <limits>

namespace heddle::solver {

CostTables::CostTables(const Model &m, const TablePool &pool)
    : m(m), adjacent(m.vars.size()), offsets{0} {
  for (const Variable &v : m.vars) {
    auto &row = unary.emplace_back();
    for (Cost c : v.unary)
      row.push_back(pool.convert(c));
    offsets.push_back(offsets.back() + v.unary.size());
  }
  for (size_t id = 0; id < m.pairs.size(); ++id) {
    const Pair &p = m.pairs[id];
    adjacent[p.a].push_back({p.b, pool.getTransposed(id)});
    adjacent[p.b].push_back({p.a, pool.getTable(id)});
  }
}

Elimination::Elimination(const CostTables &tables)
    : tables(tables), position(tables.getModel().vars.size(), -1) {}

void Elimination::plan(const std::vector<int32_t> &candidates, double maxTable,
                       double maxTotal, Random &r) {
  for (int32_t v : order.vars)
    position[v] = -1;
  order = chooseOrder(tables.getModel(), candidates, maxTable, maxTotal, r);
  layOut();
}

void Elimination::layOut() {
  const Model &m = tables.getModel();
  size_t count = order.vars.size();
  for (size_t i = 0; i < count; ++i)
    position[order.vars[i]] = static_cast<int32_t>(i);
  buckets.resize(count);
  std::vector<std::vector<int32_t>> children(count);
  size_t offset = 0;
  for (size_t i = 0; i < count; ++i) {
    Bucket &b = buckets[i];
    b.var = order.vars[i];
    b.separator.clear();
    b.factors.clear();
    for (int32_t v : order.separators[i])
      b.separator.push_back(position[v]);
    std::ranges::sort(b.separator, std::greater<>());
    b.offset = offset;
    b.size = 1;
    for (int32_t p : b.separator)
      b.size *= m.vars[order.vars[p]].size();
    offset += b.size;
    if (!b.separator.empty())
      children[b.separator.back()].push_back(static_cast<int32_t>(i));

    auto dimension = [&](int32_t p) {
      return std::ranges::find(b.separator, p) - b.separator.begin();
    };
    for (const auto &n : tables.getNeighbors(b.var)) {
      int32_t p = position[n.var];
      if (p <= static_cast<int32_t>(i)) // fixed, or in an earlier bucket
        continue;
      Factor f{n.table, -1, std::vector<size_t>(b.separator.size(), 0)};
      f.strides[dimension(p)] = m.vars[b.var].size();
      b.factors.push_back(std::move(f));
    }
    for (int32_t child : children[i]) {
      Factor f{nullptr, child, std::vector<size_t>(b.separator.size(), 0)};
      // The child's last dimension is this bucket's variable.
      const auto &dims = buckets[child].separator;
      size_t stride = 1;
      for (size_t d = dims.size(); d-- > 0;) {
        if (dims[d] != static_cast<int32_t>(i))
          f.strides[dimension(dims[d])] = stride;
        stride *= m.vars[order.vars[dims[d]]].size();
      }
      b.factors.push_back(std::move(f));
    }
  }
  messages.resize(std::max(messages.size(), offset));
  unaries.resize(std::max(unaries.size(), count));
}

const double *Elimination::dataOf(const Factor &f) const {
  return f.data ? f.data : messages.data() + buckets[f.child].offset;
}

void Elimination::conditionalUnary(const double *extra, const Labels &x,
                                   const Bucket &b,
                                   std::vector<double> &out) const {
  out = tables.getUnary(b.var);
  for (size_t s = 0; s < out.size(); ++s)
    out[s] += extra[s];
  for (const auto &n : tables.getNeighbors(b.var))
    if (position[n.var] < 0) {
      addTo(out.data(), n.table + static_cast<size_t>(x[n.var]) * out.size(),
            out.size());
    }
}

template <typename Fn>
void Elimination::forEachEntry(const Bucket &b, const Fn &visit) {
  const Model &m = tables.getModel();
  size_t dims = b.separator.size(), factors = b.factors.size();
  std::vector<size_t> sizes(dims), index(dims, 0), at(factors, 0);
  for (size_t d = 0; d < dims; ++d)
    sizes[d] = m.vars[order.vars[b.separator[d]]].size();
  for (size_t entry = 0;; ++entry) {
    visit(entry, at);
    size_t d = dims;
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) {
      --d;
      index[d] = 0;
      for (size_t f = 0; f < factors; ++f)
        at[f] -= b.factors[f].strides[d] * (sizes[d] - 1);
    }
    if (d == 0)
      return;
    for (size_t f = 0; f < factors; ++f)
      at[f] += b.factors[f].strides[d - 1];
  }
}

void Elimination::computeMessage(const Bucket &b,
                                 const std::vector<double> &unary) {
  double *out = messages.data() + b.offset;
  std::vector<double> sum(unary.size());
  std::vector<const double *> data;
  data.reserve(b.factors.size());
  for (const Factor &f : b.factors)
    data.push_back(dataOf(f));
  forEachEntry(b, [&](size_t entry, const std::vector<size_t> &at) {
    std::copy(unary.begin(), unary.end(), sum.begin());
    for (size_t f = 0; f < at.size(); ++f)
      addTo(sum.data(), data[f] + at[f], sum.size());
    out[entry] = least(sum.data(), sum.size());
  });
}

double Elimination::solve(const std::vector<double> &extra, Labels &x) {
  double value = 0;
  for (size_t i = 0; i < order.vars.size(); ++i) {
    const Bucket &b = buckets[i];
    conditionalUnary(extra.data() + tables.getOffset(b.var), x, b, unaries[i]);
    computeMessage(b, unaries[i]);
    if (b.separator.empty())
      value += messages[b.offset];
  }
  std::vector<double> sum;
  for (size_t i = order.vars.size(); i-- > 0;) {
    const Bucket &b = buckets[i];
    sum = unaries[i];
    for (const Factor &f : b.factors) {
      const double *row = dataOf(f);
      for (size_t d = 0; d < b.separator.size(); ++d)
        row += f.strides[d] * x[order.vars[b.separator[d]]];
      addTo(sum.data(), row, sum.size());
    }
    x[b.var] =
        static_cast<int32_t>(std::ranges::min_element(sum) - sum.begin());
  }
  return value;
}

void Elimination::passBack() {
  rests.assign(messages.size(), std::numeric_limits<double>::infinity());
  double roots = 0;
  for (const Bucket &b : buckets)
    if (b.separator.empty())
      roots += messages[b.offset];
  std::vector<double> sum;
  for (size_t i = order.vars.size(); i-- > 0;) {
    const Bucket &b = buckets[i];
    const std::vector<double> &own = unaries[i];
    // The other components are outside of a root's subtree.
    if (b.separator.empty())
      rests[b.offset] = roots - messages[b.offset];
    sum.resize(own.size());
    forEachEntry(b, [&](size_t entry, const std::vector<size_t> &at) {
      double rest = rests[b.offset + entry];
      for (size_t s = 0; s < own.size(); ++s)
        sum[s] = own[s] + rest;
      for (size_t f = 0; f < at.size(); ++f)
        addTo(sum.data(), dataOf(b.factors[f]) + at[f], sum.size());
      for (size_t f = 0; f < at.size(); ++f) {
        if (b.factors[f].data)
          continue;
        size_t first = buckets[b.factors[f].child].offset + at[f];
        for (size_t s = 0; s < own.size(); ++s)
          rests[first + s] =
              std::min(rests[first + s], sum[s] - messages[first + s]);
      }
    });
  }
}

double Elimination::rest(size_t bucketIndex, const Labels &x) const {
  const Bucket &b = buckets[bucketIndex];
  size_t entry = 0;
  for (int32_t p : b.separator)
    entry =
        entry * tables.getModel().vars[order.vars[p]].size() + x[order.vars[p]];
  return rests[b.offset + entry];
}

} // namespace heddle::solver
