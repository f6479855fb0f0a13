//===- Streams.h - The streams of a device ----------------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_STREAMS_H
#define HEDDLE_DIALECTS_HEDDLE_STREAMS_H

#include <cstdint>

namespace heddle {

/// The stream on which computations run. All other streams are for
/// communication.
inline constexpr int32_t kComputeStream = 0;
/// The most streams of a device. Streams are numbered from 0.
inline constexpr int32_t kMaxStreams = 8;

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_STREAMS_H
