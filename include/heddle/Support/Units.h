//===- Units.h - Times as people read them ----------------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_UNITS_H
#define HEDDLE_SUPPORT_UNITS_H

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace heddle {

/// Returns a time such as "3.711 ms" or "12.35 s", rounded to `digits`
/// significant digits, without zeros at the end of the fraction. Rounded times
/// below 10 s are in milliseconds, as in the tables of reports.
inline std::string formatSeconds(double seconds, int digits = 4) {
  char text[400]; // the largest number has 309 digits
  std::snprintf(text, sizeof text, "%.*e", digits - 1, seconds);
  double rounded = std::strtod(text, nullptr);
  if (!std::isfinite(rounded))
    return std::string(text) + " s";
  int exponent = std::atoi(std::strchr(text, 'e') + 1);
  bool isLong = rounded >= 10;
  int decimals = digits - 1 - exponent - (isLong ? 0 : 3);
  std::snprintf(text, sizeof text, "%.*f", std::clamp(decimals, 0, 30),
                isLong ? rounded : 1e3 * rounded);
  std::string number = text;
  if (number.find('.') != std::string::npos) {
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.')
      number.pop_back();
  }
  return number + (isLong ? " s" : " ms");
}

/// The significant digits of the times of a whole step, of which close ones are
/// compared.
inline constexpr int kStepDigits = 6;

} // namespace heddle

#endif // HEDDLE_SUPPORT_UNITS_H
