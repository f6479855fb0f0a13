//===- checksum.h - Checksums of files and buffers --------------*- C++ -*-===//

#ifndef HEDDLE_RT_CHECKSUM_H
#define HEDDLE_RT_CHECKSUM_H

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace heddle::runtime {

/// XXH64 with seed 0 of bytes that come piece by piece. Finds damage, not
/// forgery.
class Checksum {
public:
  void update(std::span<const std::byte> bytes) {
    length += bytes.size();
    if (held > 0) {
      size_t taken = std::min(bytes.size(), stripe.size() - held);
      std::copy_n(bytes.data(), taken, stripe.data() + held);
      held += taken;
      bytes = bytes.subspan(taken);
      if (held < stripe.size())
        return;
      consume(stripe.data());
      held = 0;
    }
    for (; bytes.size() >= stripe.size(); bytes = bytes.subspan(stripe.size()))
      consume(bytes.data());
    std::copy(bytes.begin(), bytes.end(), stripe.data());
    held = bytes.size();
  }

  uint64_t value() const {
    uint64_t hash = prime5;
    if (length >= stripe.size()) {
      hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) +
             std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
      for (uint64_t lane : lanes)
        hash = (hash ^ mix(0, lane)) * prime1 + prime4;
    }
    hash += length;
    size_t at = 0;
    for (; at + 8 <= held; at += 8)
      hash =
          std::rotl(hash ^ mix(0, load<uint64_t>(&stripe[at])), 27) * prime1 +
          prime4;
    for (; at + 4 <= held; at += 4)
      hash =
          std::rotl(hash ^ load<uint32_t>(&stripe[at]) * prime1, 23) * prime2 +
          prime3;
    for (; at < held; ++at)
      hash = std::rotl(hash ^ uint64_t(stripe[at]) * prime5, 11) * prime1;
    hash = (hash ^ hash >> 33) * prime2;
    hash = (hash ^ hash >> 29) * prime3;
    return hash ^ hash >> 32;
  }

private:
  static constexpr uint64_t prime1 = 0x9e3779b185ebca87,
                            prime2 = 0xc2b2ae3d27d4eb4f,
                            prime3 = 0x165667b19e3779f9,
                            prime4 = 0x85ebca77c2b2ae63,
                            prime5 = 0x27d4eb2f165667c5;

  template <typename T> static uint64_t load(const std::byte *from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  static uint64_t mix(uint64_t lane, uint64_t word) {
    return std::rotl(lane + word * prime2, 31) * prime1;
  }
  void consume(const std::byte *bytes) {
    for (size_t i = 0; i < lanes.size(); ++i)
      lanes[i] = mix(lanes[i], load<uint64_t>(bytes + 8 * i));
  }

  std::array<uint64_t, 4> lanes = {prime1 + prime2, prime2, 0, 0 - prime1};
  std::array<std::byte, 32> stripe;
  size_t held = 0; ///< bytes of `stripe`
  uint64_t length = 0;
};

inline uint64_t checksumOf(std::span<const std::byte> bytes) {
  Checksum sum;
  sum.update(bytes);
  return sum.value();
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_CHECKSUM_H
