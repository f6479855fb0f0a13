//===- Random.h - The same numbers on every platform ------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_RANDOM_H
#define HEDDLE_SUPPORT_RANDOM_H

#include <cstdint>

namespace heddle {

/// A random number generator, SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
/// The distributions of the standard library differ between implementations;
/// those here do not.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// A number in [0, count); `count` > 0.
  uint64_t below(uint64_t count) {
    return static_cast<uint64_t>(
        (static_cast<unsigned __int128>(next()) * count) >> 64);
  }
  /// A number in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

private:
  uint64_t state;
};

} // namespace heddle

#endif // HEDDLE_SUPPORT_RANDOM_H
