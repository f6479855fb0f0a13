//===- TablePool.cpp - Pair tables for fast loops -------------------------===//

#include "Bound/TablePool.h"

#include <algorithm>
#include <unordered_map>

namespace heddle::solver {

namespace {

double greatestFinite(const std::vector<Cost> &list) {
  Cost result = 0;
  for (Cost c : list)
    if (c < kInfiniteCost)
      result = std::max(result, c);
  return static_cast<double>(result);
}

uint64_t hashOf(const Pair &p, int32_t columns) {
  uint64_t hash = static_cast<uint64_t>(columns);
  for (Cost c : p.table)
    hash = (hash ^ static_cast<uint64_t>(c)) * 0x9e3779b97f4a7c15 + 1;
  return hash;
}

} // namespace

TablePool::TablePool(const Model &m)
    : forbidden(1 + static_cast<double>(m.constant)) {
  for (const Variable &v : m.vars)
    forbidden += greatestFinite(v.unary);
  for (const Pair &p : m.pairs)
    forbidden += greatestFinite(p.table);

  std::unordered_map<uint64_t, std::vector<size_t>> byHash;
  for (size_t id = 0; id < m.pairs.size(); ++id) {
    const Pair &p = m.pairs[id];
    size_t columns = m.vars[p.b].size(), rows = p.table.size() / columns;
    auto &alike = byHash[hashOf(p, m.vars[p.b].size())];
    auto equal = std::ranges::find_if(alike, [&](size_t other) {
      return m.pairs[other].table == p.table &&
             static_cast<size_t>(m.vars[m.pairs[other].b].size()) == columns;
    });
    if (equal != alike.end()) {
      plain.push_back(plain[*equal]);
      transposed.push_back(transposed[*equal]);
      continue;
    }
    alike.push_back(id);
    plain.push_back(data.size());
    for (Cost c : p.table)
      data.push_back(convert(c));
    transposed.push_back(data.size());
    for (size_t c = 0; c < columns; ++c)
      for (size_t r = 0; r < rows; ++r)
        data.push_back(convert(p.table[r * columns + c]));
  }
}

} // namespace heddle::solver
