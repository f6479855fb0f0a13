//===- stream_order.h - Order in which streams run --------------*- C++ -*-===//
//
// The work of different streams runs at the same time, in an order that only
// events restrict. A test forces an unlikely order, to show that a program
// misses no event.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_STREAM_ORDER_H
#define HEDDLE_RT_STREAM_ORDER_H

#include "heddle_rt/status.h"

#include <cstdint>
#include <string_view>

namespace heddle::runtime {

/// The order in which a device starts the work of its streams.
///
/// Natural: all streams run at the same time. The other kinds are for tests.
/// With them, a device starts no work before the host waits for it. Then it
/// starts one call after the other. It chooses among the calls that are first
/// in their streams and wait for nothing: the earliest issued, the latest
/// issued, or a random one. A collective may run beside other calls, because it
/// waits for other devices. Its output is filled with bytes 0xFF when it
/// starts, unless it is in place.
struct StreamOrder {
  enum class Kind { Natural, Earliest, Latest, Random } kind = Kind::Natural;
  uint64_t seed = 0; ///< Random
};

/// Parses "earliest", "latest" or "random:SEED"; "" is natural.
Expected<StreamOrder> parseStreamOrder(std::string_view text);

/// Returns the order in the environment variable HEDDLE_RT_STREAM_ORDER.
Expected<StreamOrder> streamOrderFromEnvironment();

} // namespace heddle::runtime

#endif // HEDDLE_RT_STREAM_ORDER_H
