//===- BeginCalls.cpp - Calls that streams come to ------------------------===//

#include "EngineState.h"
#include "heddle/Simulate/Communications.h"
#include "heddle/Simulate/MeshAxes.h"
#include <set>

using namespace mlir;
using namespace heddle;
using namespace heddle::simulator;

/// Returns the properties of a call that are the same each time it runs.
FailureOr<const KnownCall *> Engine::getKnown(rt::DeviceCallOpInterface call) {
  auto [known, isNew] = knownCalls.try_emplace(call);
  KnownCall &result = known->second;
  if (!isNew)
    return &result;
  if (call.isCommunication()) {
    result.communication = getCommunication(call, topology, mesh);
    return &result;
  }
  FailureOr<double> seconds = model.getSeconds(call);
  if (failed(seconds))
    return failure();
  result.seconds = *seconds;
  result.slowdown = model.getSlowdown(call);
  return &result;
}

/// Begins a call on its stream.
LogicalResult Engine::begin(Place place) {
  rt::DeviceCallOpInterface call = lists[place.list].calls[place.call];
  FailureOr<const KnownCall *> found = getKnown(call);
  if (failed(found))
    return failure();
  const KnownCall &known = **found;
  Stream &stream = streams[place.list][place.stream];
  CallTimes &time = times[place.list][place.call];
  time.start = now;
  time.waitedFor = stream.cause;
  stream.call = place.call;
  if (known.communication) {
    stream.state = Stream::Communicating;
    stream.hasBegun = false;
    if (known.communication->kind == CommunicationKind::Transfer)
      return beginTransfer(place, *known.communication);
    beginCollective(place, *known.communication);
    return success();
  }
  stream.state = Stream::Computing;
  time.alone = known.seconds;
  stream.left = known.seconds + getWake(place);
  stream.slowdown = known.slowdown;
  return success();
}

/// Returns the seconds between the end of another stream's call and the start
/// of the call that waited for it. 0 if the stream has waited for no other
/// stream.
double Engine::getWake(Place place) const {
  const CallRef &cause = streams[place.list][place.stream].cause;
  if (cause.list < 0)
    return 0;
  rt::DeviceCallOpInterface awaited = lists[cause.list].calls[cause.call];
  bool isOwn =
      unsigned(cause.list) == place.list && awaited.getStream() == place.stream;
  return isOwn ? 0 : model.getWake();
}

/// Returns the lists that enter a collective over `axes` together with `list`,
/// and their devices. These are the lists with members in the same groups,
/// directly or through groups of other lists.
const Engine::Meeting &Engine::getMeeting(unsigned list, const Axes &axes) {
  auto [known, isNew] = meetingsOf.try_emplace({list, axes});
  Meeting &meeting = known->second;
  if (!isNew)
    return meeting;
  AxisMask mask = getAxisMask(axes);
  std::map<int64_t, std::set<unsigned>> groups;
  for (auto [device, owner] : listOf)
    groups[topology.getFirstOfGroup(device, mask)].insert(owner);
  std::set<unsigned> together = {list};
  for (size_t size = 0; size != together.size();) {
    size = together.size();
    for (const auto &[first, owners] : groups)
      if (llvm::any_of(owners, [&](unsigned o) { return together.count(o); }))
        together.insert(owners.begin(), owners.end());
  }
  meeting.lists.assign(together.begin(), together.end());
  for (unsigned other : together)
    llvm::append_range(meeting.devices, lists[other].devices);
  llvm::sort(meeting.devices);
  return meeting;
}

/// Enters a collective. It starts when the last of its lists enters.
void Engine::beginCollective(Place place, const Communication &collective) {
  Axes axes(collective.axes.begin(), collective.axes.end());
  const Meeting &meeting = getMeeting(place.list, axes);
  auto flow = std::make_shared<Flow>();
  if (meeting.lists.size() > 1) {
    unsigned number = numCollectives[{place.list, axes, place.stream}]++;
    auto [waiting, isFirst] =
        meetings.try_emplace({meeting.lists, axes, place.stream, number}, flow);
    flow = waiting->second;
    flow->members.push_back(place);
    if (flow->members.size() < meeting.lists.size())
      return;
    meetings.erase(waiting);
  } else {
    flow->members.push_back(place);
  }
  Operation *op = lists[place.list].calls[place.call];
  auto [known, isNew] = effortOf.try_emplace({op, place.list});
  if (isNew)
    known->second =
        getEffort(collective, links.getTraffic(collective, meeting.devices));
  start(flow, known->second);
}

/// Finds the lists with which a transfer of a list goes on, and its traffic.
FailureOr<const Engine::Route *>
Engine::getRoute(Place place, const Communication &transfer) {
  rt::DeviceCallOpInterface call = lists[place.list].calls[place.call];
  auto [known, isNew] = routes.try_emplace({call, place.list});
  Route &route = known->second;
  if (!isNew)
    return &route;
  Axes axes(transfer.axes.begin(), transfer.axes.end());
  bool sends = isa<rt::SendOp>(call.getOperation());
  Messages messages;
  std::set<unsigned> others;
  for (int64_t device : lists[place.list].devices) {
    std::optional<int64_t> peer =
        getPeer(call, transfer, topology, mesh, device);
    if (!peer)
      return call.emitError() << "expected a peer that is computed from "
                                 "coordinates and constants";
    auto other = listOf.find(*peer);
    if (other == listOf.end())
      return call.emitError()
             << "expected a peer that is simulated, got device " << *peer;
    others.insert(other->second);
    messages.emplace_back(device, *peer);
  }
  for (unsigned other : others)
    route.channels.push_back({axes, place.stream, sends ? place.list : other,
                              sends ? other : place.list});
  if (sends)
    route.effort =
        getEffort(transfer, links.getTransfer(messages, transfer.bytes));
  return &route;
}

/// Starts a send, or lets a receive wait for its sends.
LogicalResult Engine::beginTransfer(Place place,
                                    const Communication &transfer) {
  FailureOr<const Route *> route = getRoute(place, transfer);
  if (failed(route))
    return failure();
  rt::DeviceCallOpInterface call = lists[place.list].calls[place.call];
  if (!isa<rt::SendOp>(call.getOperation())) {
    receives.push_back({place, (*route)->channels, {}});
    return success();
  }
  auto flow = std::make_shared<Flow>();
  flow->members.push_back(place);
  for (const Channel &channel : (*route)->channels)
    sent[channel].push_back(flow);
  start(flow, (*route)->effort);
  return success();
}

/// Returns the traffic of a communication, scaled to the time that the model
/// gives it.
Engine::Effort Engine::getEffort(const Communication &communication,
                                 Traffic traffic) {
  const ClusterDevice &device = topology.getCluster().device;
  // A member of a permute that receives its own block, or zeros, copies it.
  double least = 0;
  if (communication.kind == CommunicationKind::Permute &&
      llvm::any_of(llvm::enumerate(communication.sources), [](auto source) {
        return source.value() < 0 || source.value() == int64_t(source.index());
      }))
    least = 2 * double(communication.bytes) / device.getMemoryRate();
  double seconds = device.launch + std::max(least, links.getSeconds(traffic));
  Effort effort;
  effort.seconds = model.getSeconds(communication, seconds);
  double factor = seconds > 0 ? effort.seconds / seconds : 1;
  effort.load = model.getLoad(communication, effort.seconds);
  for (TrafficPhase &phase : traffic) {
    effort.bytes += int64_t(phase.bytes);
    phase.latency *= factor;
    phase.bytes *= factor;
  }
  effort.least = factor * (device.launch + least);
  traffic.insert(traffic.begin(), TrafficPhase{factor * device.launch, 0, -1});
  effort.traffic = std::move(traffic);
  return effort;
}

/// Starts a flow that all of its lists have come to.
void Engine::start(const std::shared_ptr<Flow> &flow, const Effort &effort) {
  double wake = 0;
  for (const Place &member : flow->members)
    wake = std::max(wake, getWake(member));
  flow->load = effort.load;
  flow->least = effort.least + wake;
  flow->traffic = effort.traffic;
  flow->traffic.front().latency += wake;
  for (const Place &member : flow->members) {
    streams[member.list][member.stream].hasBegun = true;
    CallTimes &time = times[member.list][member.call];
    time.begun = now;
    time.alone = effort.seconds;
    time.bytes = effort.bytes;
  }
  const Place &first = flow->members.front();
  times[first.list][first.call].traffic = effort.traffic;
  flow->beginPhase();
  underWay.push_back(flow);
}

/// Gives each receive the next transfers of its channels.
void Engine::takeTransfers() {
  for (Receive &receive : receives) {
    if (receive.channels.empty())
      continue;
    llvm::erase_if(receive.channels, [&](const Channel &channel) {
      std::deque<std::shared_ptr<Flow>> &flows = sent[channel];
      if (flows.empty())
        return false;
      receive.flows.push_back(flows.front());
      flows.pop_front();
      return true;
    });
    const Place &place = receive.place;
    streams[place.list][place.stream].hasBegun = receive.channels.empty();
    times[place.list][place.call].begun = now;
  }
}

/// Ends the receives whose transfers are over. Returns whether there are any.
bool Engine::endReceives() {
  size_t count = receives.size();
  llvm::erase_if(receives, [&](const Receive &receive) {
    if (!receive.channels.empty() ||
        !llvm::all_of(receive.flows,
                      [](const auto &flow) { return flow->hasEnded; }))
      return false;
    const Place &sender = receive.flows.back()->members.front(),
                &place = receive.place;
    times[place.list][place.call].send = {int(sender.list), sender.call};
    end(place);
    return true;
  });
  return receives.size() != count;
}
