//===- Engine.cpp - Discrete events of streams and links ------------------===//

#include "EngineState.h"
#include <limits>

using namespace mlir;
using namespace heddle;
using namespace heddle::simulator;

Engine::Engine(ArrayRef<CallQueues> lists, LinkTraffic &links, MeshAttr mesh,
               CostModel &model)
    : lists(lists), links(links), topology(links.getTopology()), mesh(mesh),
      model(model), streams(lists.size()), times(lists.size()) {
  for (auto [i, list] : llvm::enumerate(lists)) {
    events.emplace_back(list.recorders.size());
    times[i].resize(list.calls.size());
    for (int64_t device : list.devices)
      listOf[device] = i;
  }
}

//===----------------------------------------------------------------------===//
// Queues
//===----------------------------------------------------------------------===//

/// Lets all streams of a list go on if all have come to the barrier.
bool Engine::passBarrier(unsigned list) {
  const CallQueues &queues = lists[list];
  const Stream *last = nullptr;
  for (auto [stream, queue] : llvm::zip(streams[list], queues.streams)) {
    if (stream.state != Stream::Idle || stream.next >= queue.size() ||
        queue[stream.next].kind != QueueItem::Barrier)
      return false;
    if (!last || stream.ready > last->ready)
      last = &stream;
  }
  Stream latest = *last;
  for (Stream &stream : streams[list]) {
    ++stream.next;
    stream.cause = latest.cause;
    stream.ready = latest.ready;
  }
  return true;
}

FailureOr<bool> Engine::advance(unsigned list, int32_t number) {
  Stream &stream = streams[list][number];
  const std::vector<QueueItem> &queue = lists[list].streams[number];
  if (stream.state != Stream::Idle || stream.next >= queue.size())
    return false;
  QueueItem item = queue[stream.next];
  switch (item.kind) {
  case QueueItem::Record:
    events[list][item.number] = {true, stream.ready, stream.cause};
    break;
  case QueueItem::Wait: {
    const Event &event = events[list][item.number];
    if (!event.hasOccurred)
      return false;
    if (event.time > stream.ready || stream.cause.list < 0) {
      stream.ready = event.time;
      stream.cause = event.cause;
    }
    break;
  }
  case QueueItem::Barrier:
    return passBarrier(list);
  case QueueItem::Call:
    ++stream.next;
    if (failed(begin({list, number, item.number})))
      return failure();
    return true;
  }
  ++stream.next;
  return true;
}

/// Takes items of all queues until every stream is busy or has to wait.
LogicalResult Engine::advanceStreams() {
  for (bool hasMoved = true; hasMoved;) {
    hasMoved = false;
    for (unsigned list = 0; list < lists.size(); ++list)
      for (int32_t stream = 0; stream < kMaxStreams; ++stream)
        while (true) {
          FailureOr<bool> moved = advance(list, stream);
          if (failed(moved))
            return failure();
          if (!*moved)
            break;
          hasMoved = true;
        }
  }
  return success();
}

/// Ends a call now.
void Engine::end(const Place &place) {
  Stream &stream = streams[place.list][place.stream];
  times[place.list][place.call].end = now;
  stream.state = Stream::Idle;
  stream.ready = now;
  stream.cause = {int(place.list), place.call};
}

/// Emits an error: streams are not at their ends, though no call will end.
LogicalResult Engine::emitDeadlock() {
  for (unsigned list = 0; list < lists.size(); ++list)
    for (const Stream &stream : streams[list])
      if (stream.state == Stream::Computing) {
        rt::DeviceCallOpInterface call = lists[list].calls[stream.call];
        return call.emitError()
               << "never ends: expected its cost model to give it a finite "
                  "time, got "
               << stream.left << " s, and " << stream.slowdown
               << " times that beside communication";
      }
  for (unsigned list = 0; list < lists.size(); ++list)
    for (const Stream &stream : streams[list])
      if (stream.state == Stream::Communicating) {
        rt::DeviceCallOpInterface call = lists[list].calls[stream.call];
        return call.emitError()
               << "is never met: expected the other ranks of its group to come "
                  "to it too, and collectives, sends and receives in the same "
                  "order on all ranks";
      }
  for (auto [list, queues] : llvm::enumerate(lists))
    for (auto [stream, queue] : llvm::zip(streams[list], queues.streams))
      if (stream.next < queue.size())
        return queues.calls.front()->emitOpError()
               << "is in a program of which a stream waits for ever: expected "
                  "every event to be recorded before a stream waits for it";
  llvm_unreachable("a stream that is not at its end");
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

/// Adds `seconds` to the exposed time of the communication for which the
/// compute stream of each list waits, unless it waits for another list.
void Engine::blame(double seconds) {
  for (auto [list, queues] : llvm::enumerate(lists)) {
    int32_t number = kComputeStream;
    // At most one step for each stream: events do not wait in circles.
    for (int32_t hops = 0; hops < kMaxStreams; ++hops) {
      Stream &stream = streams[list][number];
      if (stream.state == Stream::Communicating && stream.hasBegun)
        times[list][stream.call].exposed += seconds;
      if (stream.state != Stream::Idle ||
          stream.next >= queues.streams[number].size())
        break;
      QueueItem item = queues.streams[number][stream.next];
      if (item.kind == QueueItem::Wait) {
        number = queues.recorders[item.number];
        continue;
      }
      // A barrier: the host waits for any stream.
      auto *other = llvm::find_if(streams[list], [](const Stream &other) {
        return other.state != Stream::Idle;
      });
      if (other == streams[list].end())
        break;
      number = other - streams[list].begin();
    }
  }
}

/// Subtracts `part` from `left`. Rounding must not leave a rest that is too
/// short to advance the time.
static void reduce(double &left, double part, double now, double paceOfRest) {
  double rest = left - part;
  bool isDone = rest <= 1e-12 * left || now + rest * paceOfRest == now;
  left = isDone ? 0 : rest;
}

/// Finds the paces of all flows and computing calls. Returns the seconds until
/// the first of them ends its current phase, or infinity if there are none.
double Engine::findPaces() {
  double next = std::numeric_limits<double>::infinity();
  std::vector<int> patterns;
  for (const auto &flow : underWay)
    if (flow->usesLinks())
      patterns.push_back(flow->traffic[flow->phase].pattern);
  llvm::sort(patterns);
  ArrayRef<double> byPattern;
  if (!patterns.empty())
    byPattern = links.getPaces(patterns);
  flowPaces.clear();
  for (const auto &flow : underWay) {
    double pace = 1;
    if (flow->usesLinks())
      pace = byPattern[llvm::lower_bound(patterns,
                                         flow->traffic[flow->phase].pattern) -
                       patterns.begin()];
    flowPaces.push_back(pace);
    double left = flow->phase == flow->traffic.size() ? flow->least
                  : flow->latency > 0                 ? flow->latency
                                                      : flow->bytes;
    next = std::min(next, left * pace);
  }

  // Calls that compute on the same device at the same time share its speed
  // equally.
  std::vector<double> loads(lists.size());
  for (const auto &flow : underWay)
    for (const Place &member : flow->members)
      loads[member.list] = std::max(loads[member.list], flow->load);
  streamPaces.assign(lists.size(), {});
  for (unsigned list = 0; list < lists.size(); ++list) {
    auto computing =
        double(llvm::count_if(streams[list], [](const Stream &stream) {
          return stream.state == Stream::Computing;
        }));
    for (auto [stream, pace] : llvm::zip(streams[list], streamPaces[list]))
      if (stream.state == Stream::Computing) {
        pace = computing * (1 + (stream.slowdown - 1) * loads[list]);
        next = std::min(next, stream.left * pace);
      }
  }
  return next;
}

/// Lets `seconds` pass, and ends the calls that are over then.
void Engine::pass(double seconds) {
  now += seconds;
  for (unsigned list = 0; list < lists.size(); ++list)
    for (int32_t number = 0; number < kMaxStreams; ++number) {
      Stream &stream = streams[list][number];
      if (stream.state != Stream::Computing)
        continue;
      double pace = streamPaces[list][number];
      reduce(stream.left, seconds / pace, now, pace);
      if (stream.left <= 0)
        end({list, number, stream.call});
    }
  for (auto [flow, pace] : llvm::zip(underWay, flowPaces)) {
    flow->least = std::max(0.0, flow->least - seconds);
    if (flow->phase < flow->traffic.size()) {
      reduce(flow->latency > 0 ? flow->latency : flow->bytes, seconds / pace,
             now, pace);
      if (flow->latency <= 0 && flow->bytes <= 0) {
        ++flow->phase;
        flow->beginPhase();
      }
    }
    reduce(flow->least, 0, now, 1);
    flow->hasEnded = flow->phase == flow->traffic.size() && flow->least <= 0;
    if (flow->hasEnded)
      for (const Place &member : flow->members)
        end(member);
  }
  llvm::erase_if(underWay, [](const auto &flow) { return flow->hasEnded; });
}

FailureOr<std::vector<std::vector<CallTimes>>> Engine::run() {
  while (true) {
    if (failed(advanceStreams()))
      return failure();
    takeTransfers();
    if (endReceives())
      continue;
    double next = findPaces();
    if (next == std::numeric_limits<double>::infinity())
      break;
    blame(next);
    pass(next);
  }
  for (auto [list, queues] : llvm::enumerate(lists))
    for (auto [stream, queue] : llvm::zip(streams[list], queues.streams))
      if (stream.state != Stream::Idle || stream.next < queue.size())
        return emitDeadlock();
  return std::move(times);
}

FailureOr<std::vector<std::vector<CallTimes>>>
heddle::runQueues(ArrayRef<CallQueues> lists, LinkTraffic &links, MeshAttr mesh,
                  CostModel &model) {
  return Engine(lists, links, mesh, model).run();
}
