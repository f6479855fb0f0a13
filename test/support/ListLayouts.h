//===- ListLayouts.h - Every layout of a tensor on a mesh -------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_LISTLAYOUTS_H
#define HEDDLE_TEST_SUPPORT_LISTLAYOUTS_H

#include "heddle/Cost/Resharding.h"

namespace heddle::test {

/// Returns every layout of a tensor of `rank` dimensions on a mesh of `axes`
/// axes. Each axis splits a dimension, at any place among the axes that split
/// it, or is partial, or does neither. Partial values are maxima if `isMax`,
/// else sums.
inline std::vector<TensorLayout> listLayouts(size_t axes, size_t rank,
                                             bool isMax) {
  std::vector<TensorLayout> layouts = {
      {std::vector<std::vector<unsigned>>(rank), 0}};
  for (unsigned axis = 0; axis < axes; ++axis)
    for (size_t i = 0, count = layouts.size(); i < count; ++i) {
      const TensorLayout layout = layouts[i];
      layouts.push_back(layout);
      layouts.back().partial |= AxisMask(1) << axis;
      layouts.back().isMax = isMax;
      for (size_t dim = 0; dim < rank; ++dim)
        for (size_t place = 0; place <= layout.dims[dim].size(); ++place) {
          layouts.push_back(layout);
          std::vector<unsigned> &list = layouts.back().dims[dim];
          list.insert(list.begin() + int64_t(place), axis);
        }
    }
  return layouts;
}

} // namespace heddle::test

#endif // HEDDLE_TEST_SUPPORT_LISTLAYOUTS_H
