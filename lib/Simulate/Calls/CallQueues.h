//===- CallQueues.h - Programs as queues of streams -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SIMULATE_CALLS_CALLQUEUES_H
#define HEDDLE_LIB_SIMULATE_CALLS_CALLQUEUES_H

#include "heddle/Simulate/Simulate.h"
#include <array>

namespace heddle {

/// One item in the queue of a stream. Only calls take time.
struct QueueItem {
  enum Kind {
    Call,    ///< `number` is the index of the call
    Record,  ///< `number` is the index of the event
    Wait,    ///< `number` is the index of the event
    Barrier, ///< waits until all streams of the rank have come to it
  };
  Kind kind;
  unsigned number;
};

/// What one rank of a set issues. Every record makes an event of its own, so an
/// event occurs once.
struct CallQueues {
  /// The ranks that issue these calls, in ascending order.
  std::vector<int64_t> devices;
  std::vector<rt::DeviceCallOpInterface> calls; ///< in order of issue
  std::vector<unsigned>
      entries; ///< by call, the index of its entry in the list
  std::array<std::vector<QueueItem>, kMaxStreams> streams;
  std::vector<int32_t> recorders; ///< by event, the stream that records it
  /// The number of times that this part of the program runs.
  int64_t repeat = 1;
};

/// Returns the queues of a list in parts. All streams are idle between two
/// parts: between programs, and before and after the body of a loop. So a part
/// that repeats takes the same time each time, and is one part with `repeat`.
std::vector<CallQueues> makeParts(const CallList &list,
                                  std::vector<int64_t> devices,
                                  int64_t loopIterations);

/// Returns the queues of a list with all repetitions written out. Lists that
/// meet in collectives need this: where one list repeats, another may not.
CallQueues makeQueues(const CallList &list, std::vector<int64_t> devices,
                      int64_t loopIterations);

} // namespace heddle

#endif // HEDDLE_LIB_SIMULATE_CALLS_CALLQUEUES_H
