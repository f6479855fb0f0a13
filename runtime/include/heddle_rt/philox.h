//===- philox.h - Counter-based random numbers ------------------*- C++ -*-===//
//
// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011): 128 random bits as a pure function of a 64-bit key and a 128-bit
// counter. Initializers, dropout and the choice of training windows use it, so
// their numbers do not depend on the device that draws them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_PHILOX_H
#define HEDDLE_RT_PHILOX_H

#include <array>
#include <cstdint>

namespace heddle::runtime {

class Philox4x32 {
public:
  /// Makes the generator for a key, whose low and high words are k0 and k1.
  explicit constexpr Philox4x32(uint64_t key)
      : low(static_cast<uint32_t>(key)),
        high(static_cast<uint32_t>(key >> 32)) {}

  constexpr std::array<uint32_t, 4>
  operator()(std::array<uint32_t, 4> counter) const {
    uint32_t k0 = low, k1 = high;
    for (int round = 0; round < 10; ++round) {
      uint64_t p0 = uint64_t(0xD2511F53u) * counter[0];
      uint64_t p1 = uint64_t(0xCD9E8D57u) * counter[2];
      counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0,
                 static_cast<uint32_t>(p1),
                 static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1,
                 static_cast<uint32_t>(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return counter;
  }

private:
  uint32_t low, high;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_PHILOX_H
