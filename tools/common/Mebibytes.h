//===- Mebibytes.h - Sizes as people read them ------------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_COMMON_MEBIBYTES_H
#define HEDDLE_TOOLS_COMMON_MEBIBYTES_H

#include <cmath>

namespace heddle::tools {

/// The size in MiB.
inline double inMiB(double bytes) { return bytes / double(1 << 20); }

/// The size in MiB for three decimals. Never -0.
inline double roundMiB(double bytes) {
  double rounded = std::round(1e3 * inMiB(bytes)) / 1e3;
  return rounded == 0 ? 0 : rounded;
}

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_MEBIBYTES_H
