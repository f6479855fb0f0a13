//===- Streams.h - The streams of a device ----------------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_STREAMS_H
#define HEDDLE_DIALECTS_HEDDLE_STREAMS_H

#include <cstdint>

namespace heddle {

/// Computations run on this stream; the others are for communication.
inline constexpr int32_t kComputeStream = 0;
/// The number that all streams of a device are below.
inline constexpr int32_t kMaxStreams = 8;

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_STREAMS_H
