//===- Median.h - The middle of several measurements ------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_MEDIAN_H
#define HEDDLE_SUPPORT_MEDIAN_H

#include "llvm/ADT/STLExtras.h"

#include <vector>

namespace heddle {

/// Returns the median of the values, or 0 if there are none.
inline double getMedian(std::vector<double> values) {
  if (values.empty())
    return 0;
  llvm::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_MEDIAN_H
