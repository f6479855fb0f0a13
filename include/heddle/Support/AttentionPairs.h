//===- AttentionPairs.h - The scores that an attention computes -*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_ATTENTIONPAIRS_H
#define HEDDLE_SUPPORT_ATTENTIONPAIRS_H

#include <algorithm>
#include <cstdint>
#include <optional>

namespace heddle {

/// Returns the number of pairs of a query and a key that the query sees. A
/// causal mask hides keys if there are as many queries as keys. Masks that
/// depend on data count as hiding no key.
inline int64_t countAttentionPairs(int64_t queries, int64_t keys, bool causal,
                                   std::optional<int64_t> window) {
  int64_t width = std::min(keys, window.value_or(keys));
  if (causal && queries == keys)
    return width * (width + 1) / 2 + (queries - width) * width;
  if (window && !causal)
    width = std::min(keys, 2 * width - 1);
  return queries * width;
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_ATTENTIONPAIRS_H
