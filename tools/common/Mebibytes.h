//===- Mebibytes.h - Sizes as people read them ------------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_COMMON_MEBIBYTES_H
#define HEDDLE_TOOLS_COMMON_MEBIBYTES_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

namespace heddle::tools {

/// The size in MiB.
inline double inMiB(double bytes) { return bytes / double(1 << 20); }

/// The size in MiB for three decimals. Never -0.
inline double roundMiB(double bytes) {
  double rounded = std::round(1e3 * inMiB(bytes)) / 1e3;
  return rounded == 0 ? 0 : rounded;
}

/// Returns two numbers of bytes as texts such as "10.5 MiB". Different numbers
/// get different texts.
inline std::pair<std::string, std::string> showBytes(int64_t a, int64_t b) {
  auto show = [](int64_t bytes) {
    char text[40];
    std::snprintf(text, sizeof text, "%.1f MiB", inMiB(double(bytes)));
    return std::string(text);
  };
  if (std::max(a, b) >= 1 << 20 && (a == b || show(a) != show(b)))
    return {show(a), show(b)};
  return {std::to_string(a) + " bytes", std::to_string(b) + " bytes"};
}

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_MEBIBYTES_H
