//===- staging.h - Memory for sums across processes -------------*- C++ -*-===//
//
// A rank that sums inputs of other processes needs memory for pieces that have
// arrived and wait to be summed. The compiler computes the size of this memory
// and writes it to the manifest, for each program and stream. The runtime cuts
// sums into pieces that fit. Devices without processes do not need it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_STAGING_H
#define HEDDLE_RT_STAGING_H

#include <algorithm>
#include <cstdint>

namespace heddle::runtime {

/// An all_reduce whose inputs have at most this many bytes sends them whole.
constexpr int64_t wholeInputBytes = 16 << 10;
/// At most this many bytes arrive while earlier pieces are summed.
constexpr int64_t arrivingBytes = 4 << 20;
/// The size of a piece is a multiple of this number of bytes: one cache line.
constexpr int64_t pieceUnit = 64;

/// Returns the elements of the slice of an all_reduce that each member sums.
/// The last slice may be shorter.
constexpr int64_t sliceOfAllReduce(int64_t count, int64_t members) {
  constexpr int64_t unit = 64;
  return ((count + members - 1) / members + unit - 1) / unit * unit;
}

/// Returns the staging memory of a member that sums a slice of `sliceBytes`
/// bytes: two sets of pieces. One set is summed while the other one arrives.
constexpr int64_t stagingOfSlice(int64_t members, int64_t sliceBytes) {
  constexpr int64_t leastPiece = 4096;
  int64_t most = arrivingBytes / members / pieceUnit * pieceUnit;
  int64_t whole = (sliceBytes + pieceUnit - 1) / pieceUnit * pieceUnit;
  return 2 * (members - 1) * std::min(whole, std::max(most, leastPiece));
}

/// Returns the bytes of one piece in a staging memory of `stagingBytes` bytes.
/// Returns less than `pieceUnit` if the memory is too small.
constexpr int64_t pieceOfStaging(int64_t members, int64_t stagingBytes) {
  return stagingBytes / (2 * (members - 1)) / pieceUnit * pieceUnit;
}

/// Returns the staging memory of a member that sums all inputs, which the other
/// members have sent whole.
constexpr int64_t stagingOfWholeInputs(int64_t members, int64_t inputBytes) {
  return (members + 1) * inputBytes;
}

/// Returns the staging memory of an all_reduce of `count` elements.
constexpr int64_t stagingOfAllReduce(int64_t members, int64_t count,
                                     int64_t elementBytes) {
  if (members < 2)
    return 0;
  return count * elementBytes <= wholeInputBytes
             ? stagingOfWholeInputs(members, count * elementBytes)
             : stagingOfSlice(members,
                              sliceOfAllReduce(count, members) * elementBytes);
}

/// Returns the staging memory of a reduce_scatter that gives each member
/// `count` elements.
constexpr int64_t stagingOfReduceScatter(int64_t members, int64_t count,
                                         int64_t elementBytes) {
  return members < 2 ? 0 : stagingOfSlice(members, count * elementBytes);
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_STAGING_H
