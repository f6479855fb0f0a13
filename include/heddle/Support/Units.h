//===- Units.h - Times as people read them ----------------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_UNITS_H
#define HEDDLE_SUPPORT_UNITS_H

#include <cstdio>
#include <string>

namespace heddle {

/// Returns a time such as "3.711 ms" or "12.35 s", with `digits` significant
/// digits. Times below 10 s are in milliseconds, as in the tables of reports.
inline std::string formatSeconds(double seconds, int digits = 4) {
  char text[64];
  if (seconds < 10)
    std::snprintf(text, sizeof text, "%.*g ms", digits, 1e3 * seconds);
  else
    std::snprintf(text, sizeof text, "%.*g s", digits, seconds);
  return text;
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_UNITS_H
