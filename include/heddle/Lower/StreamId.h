//===- StreamId.h - Numbers of random streams -------------------*- C++ -*-===//
//
// Every op that draws random numbers has a random stream of its own. The
// stream's number is a hash of the op's name, so that a sharded program draws
// the numbers of the unsharded one.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LOWER_STREAMID_H
#define HEDDLE_LOWER_STREAMID_H

#include <cstdint>
#include <string_view>

namespace heddle {

/// Returns the number of an op's stream: the FNV-1a hash of its name, in 32
/// bits. It is the last word of the Philox counter.
constexpr uint32_t getStreamId(std::string_view opName) {
  uint32_t hash = 2166136261u;
  for (char c : opName) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 16777619u;
  }
  return hash;
}

} // namespace heddle

#endif // HEDDLE_LOWER_STREAMID_H
