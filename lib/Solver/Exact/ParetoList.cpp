//===- ParetoList.cpp - What a part can cost and use ----------------------===//

#include "Exact/ParetoList.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace heddle::solver {

void ParetoList::add(const ParetoEntry &e, const Usage *amounts) {
  entries.push_back(e);
  used.insert(used.end(), amounts, amounts + dimensions);
}

void ParetoList::append(const ParetoList &other) {
  entries.insert(entries.end(), other.entries.begin(), other.entries.end());
  used.insert(used.end(), other.used.begin(), other.used.end());
}

void ParetoList::project(const std::vector<int32_t> &kept) {
  std::vector<Usage> left;
  left.reserve(size() * kept.size());
  for (size_t i = 0; i < size(); ++i)
    for (int32_t d : kept)
      left.push_back(getUsage(i)[d]);
  used = std::move(left);
  dimensions = kept.size();
}

void ParetoList::reorder(const std::vector<uint32_t> &kept) {
  std::vector<ParetoEntry> newEntries;
  std::vector<Usage> newUsed;
  newEntries.reserve(kept.size());
  newUsed.reserve(kept.size() * dimensions);
  for (uint32_t i : kept) {
    newEntries.push_back(entries[i]);
    newUsed.insert(newUsed.end(), getUsage(i), getUsage(i) + dimensions);
  }
  entries = std::move(newEntries);
  used = std::move(newUsed);
}

double ParetoList::removeDominated(double maxComparisons) {
  std::vector<uint32_t> order(size()), kept;
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    if (entries[a].total != entries[b].total)
      return entries[a].total < entries[b].total;
    for (size_t d = 0; d < dimensions; ++d)
      if (getUsage(a)[d] != getUsage(b)[d])
        return getUsage(a)[d] < getUsage(b)[d];
    return a < b;
  });
  double comparisons = static_cast<double>(size());
  Usage least = std::numeric_limits<Usage>::max();
  for (uint32_t i : order) {
    bool dominated;
    if (dimensions == 0) {
      dominated = !kept.empty();
    } else if (dimensions == 1) {
      // Nothing cheaper uses less than `least`.
      dominated = least <= *getUsage(i);
      least = std::min(least, *getUsage(i));
    } else {
      dominated = std::ranges::any_of(kept, [&](uint32_t k) {
        ++comparisons;
        const Usage *have = getUsage(k), *fresh = getUsage(i);
        for (size_t d = 0; d < dimensions; ++d)
          if (have[d] > fresh[d])
            return false;
        return true;
      });
    }
    if (!dominated)
      kept.push_back(i);
    if (comparisons > maxComparisons)
      return comparisons;
  }
  std::ranges::sort(kept, [&](uint32_t a, uint32_t b) {
    return entries[a].reduced != entries[b].reduced
               ? entries[a].reduced < entries[b].reduced
               : a < b;
  });
  reorder(kept);
  return comparisons;
}

} // namespace heddle::solver
