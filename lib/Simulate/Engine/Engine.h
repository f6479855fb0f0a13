//===- Engine.h - Discrete events of streams and links ----------*- C++ -*-===//
//
// Runs the queues of all lists from time 0 until they are empty. Between two
// events, every computation and every communication goes on at a constant pace,
// which depends on what else is under way.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SIMULATE_ENGINE_ENGINE_H
#define HEDDLE_LIB_SIMULATE_ENGINE_ENGINE_H

#include "../Calls/CallQueues.h"
#include "../Links/LinkTraffic.h"

namespace heddle {

/// A call by its list and its index there.
struct CallRef {
  int list = -1;
  unsigned call = 0;
};

struct CallTimes {
  double start = 0, end = 0;
  /// When a communication is under way, because all its lists have come to it.
  double begun = 0;
  double alone = 0;  ///< the seconds of the call if nothing else runs
  int64_t bytes = 0; ///< that a device sends
  /// The seconds for which the compute stream waits for this communication.
  double exposed = 0;
  /// The traffic of this call. A collective of several lists has its traffic in
  /// the list that comes to it first, a transfer in that of the sender.
  Traffic traffic = {};
  CallRef waitedFor = {};
  CallRef send = {}; ///< of a receive: what it has received
};

/// Runs the lists. Returns the times of all calls, by list. Emits an error if
/// the model cannot know the time of a call, or if the lists wait for each
/// other for ever.
mlir::FailureOr<std::vector<std::vector<CallTimes>>>
runQueues(llvm::ArrayRef<CallQueues> lists, LinkTraffic &links, MeshAttr mesh,
          CostModel &model);

} // namespace heddle

#endif // HEDDLE_LIB_SIMULATE_ENGINE_ENGINE_H
