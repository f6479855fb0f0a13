//===- Network.h - Links shared by what runs at the same time ---*- C++ -*-===//
//
// A flow is the traffic of one collective or transfer. Flows share links as
// fluids do: the messages on a link have equal parts of its capacity, and all
// messages of a flow go at the pace of its slowest one:
//
//   rate of a message = min over its flow's links of capacity / messages there
//
// Rates change only when a phase of a flow begins or ends. So if no further
// flow begins, the end of every flow is known. LinkSchedule computes these ends
// for given times. Network is a schedule with a clock, on which threads wait
// for the end of a flow.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_COMMUNICATORS_NETWORK_H
#define HEDDLE_RT_COMMUNICATORS_NETWORK_H

#include "communicators/Links.h"

#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

namespace heddle::runtime {

struct Flow {
  Traffic traffic;
  bool hasBegun = false;
  /// When the flow ends, in seconds of the schedule, unless another one begins.
  double end = std::numeric_limits<double>::infinity();
};

/// Ends of flows for given times. Has no clock.
class LinkSchedule {
public:
  explicit LinkSchedule(Links links) : links(std::move(links)) {}

  /// Begins a flow at `time`, which is at least the time of the last call.
  /// Updates `end` of every flow under way.
  void begin(std::shared_ptr<Flow> flow, double time);

private:
  /// A flow under way and the rest of its present phase.
  struct Progress {
    std::shared_ptr<Flow> flow;
    size_t phase = 0;
    double latency = 0, bytes = 0;
  };

  static bool hasEnded(const Progress &progress) {
    return progress.phase == progress.flow->traffic.size();
  }
  /// Begins phase `progress.phase`, or the first one after it that takes time.
  static void beginPhase(Progress &progress);
  /// Lets flows go on from `from` to `until` or until all have ended. Sets
  /// `end` of those that end, and removes them.
  void run(std::vector<Progress> &flows, double from, double until);
  /// Returns the seconds that a flow's latency or bytes still take, at the
  /// present rates.
  double remaining(const Progress &progress) const;

  Links links;
  std::vector<Progress> underWay; ///< at `now`
  double now = 0;
  std::vector<int64_t> messages; ///< by link, while `run` computes rates
};

/// The network that all ranks of a session share. Any thread may call it.
class Network {
public:
  /// Error: the network has fewer devices than there are ranks.
  static Expected<std::shared_ptr<Network>> create(const NetworkInfo &info,
                                                   int64_t ranks);

  const Links &links() const { return allLinks; }

  /// Begins a flow at a time of the steady clock in nanoseconds, or when the
  /// last flow began if that is later.
  void begin(const std::shared_ptr<Flow> &flow, int64_t time);
  /// Returns the end of a flow, in the clock of begin(), if no further flow
  /// begins.
  int64_t getEnd(const Flow &flow);

  enum class Wait { Ended, NotBegun, Interrupted };
  /// Sleeps until the flow's end. Gives up if the flow has not begun after
  /// `timeout`, or if the network is interrupted.
  Wait waitFor(const Flow &flow, std::chrono::milliseconds timeout);

  /// Wakes all who wait, now and later.
  void interrupt();

private:
  using Clock = std::chrono::steady_clock;
  explicit Network(const Links &links) : allLinks(links), schedule(links) {}

  const Links allLinks;
  const Clock::time_point start = Clock::now();
  std::mutex mutex; ///< guards what follows, and all flows
  std::condition_variable changed;
  LinkSchedule schedule;
  double lastBegin = 0;
  bool isInterrupted = false;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_NETWORK_H
