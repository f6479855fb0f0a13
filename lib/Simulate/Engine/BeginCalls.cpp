//===- BeginCalls.cpp - Calls that streams come to ------------------------===//

#include "EngineState.h"
#include "heddle/Simulate/Communications.h"
#include <set>

using namespace mlir;
using namespace heddle;
using namespace heddle::simulator;

/// Begins a call on its stream.
LogicalResult Engine::begin(Place place) {
  rt::DeviceCallOpInterface call = lists[place.list].calls[place.call];
  Stream &stream = streams[place.list][place.stream];
  CallTimes &time = times[place.list][place.call];
  time.start = now;
  time.waitedFor = stream.cause;
  stream.call = place.call;
  if (isCommunication(call)) {
    stream.state = Stream::Communicating;
    Communication communication = getCommunication(call, topology, mesh);
    if (communication.kind == CommunicationKind::Transfer)
      return beginTransfer(place, communication);
    beginCollective(place, communication);
    return success();
  }
  FailureOr<double> seconds = model.getSeconds(call);
  if (failed(seconds))
    return failure();
  stream.state = Stream::Computing;
  time.alone = *seconds;
  stream.left = *seconds + getWake(place);
  stream.slowdown = model.getSlowdown(call);
  return success();
}

/// Returns the seconds that the stream needs to begin after the call of another
/// stream that it has waited for.
double Engine::getWake(Place place) const {
  const CallRef &cause = streams[place.list][place.stream].cause;
  if (cause.list < 0)
    return 0;
  rt::DeviceCallOpInterface awaited = lists[cause.list].calls[cause.call];
  bool isOwn =
      unsigned(cause.list) == place.list && awaited.getStream() == place.stream;
  return isOwn ? 0 : model.getWake();
}

/// Returns the lists that have members of the groups over `axes` in which
/// `list` takes part, directly or through further groups.
std::vector<unsigned> Engine::getLists(unsigned list, ArrayRef<unsigned> axes) {
  if (lists.size() == 1)
    return {0};
  AxisMask mask = 0;
  for (unsigned axis : axes)
    mask |= AxisMask(1) << axis;
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
  return {together.begin(), together.end()};
}

/// Enters a collective. It starts when the last of its lists enters.
void Engine::beginCollective(Place place, const Communication &collective) {
  std::vector<unsigned> axes(collective.axes.begin(), collective.axes.end());
  std::vector<unsigned> together = getLists(place.list, axes);
  unsigned number = numCollectives[{place.list, axes, place.stream}]++;
  auto [meeting, isFirst] =
      meetings.try_emplace({together, axes, place.stream, number});
  if (isFirst)
    meeting->second = std::make_shared<Flow>();
  std::shared_ptr<Flow> flow = meeting->second;
  flow->members.push_back(place);
  if (flow->members.size() < together.size())
    return;
  meetings.erase(meeting);
  std::vector<int64_t> devices;
  for (unsigned list : together)
    llvm::append_range(devices, lists[list].devices);
  llvm::sort(devices);
  flow->traffic = links.getTraffic(collective, devices);
  underWay.push_back(flow);
  start(*flow, collective);
}

/// Starts a send, or lets a receive wait for its sends.
LogicalResult Engine::beginTransfer(Place place,
                                    const Communication &transfer) {
  rt::DeviceCallOpInterface call = lists[place.list].calls[place.call];
  std::vector<unsigned> axes(transfer.axes.begin(), transfer.axes.end());
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
  if (sends) {
    auto flow = std::make_shared<Flow>();
    flow->members.push_back(place);
    flow->traffic = links.getTransfer(messages, transfer.bytes);
    for (unsigned other : others)
      sent[{axes, place.stream, place.list, other}].push_back(flow);
    underWay.push_back(flow);
    start(*flow, transfer);
    return success();
  }
  Receive receive{place, {}, {}};
  for (unsigned other : others)
    receive.channels.push_back({axes, place.stream, other, place.list});
  receives.push_back(std::move(receive));
  return success();
}

/// Starts a flow whose traffic is known, with the time that the model gives it.
void Engine::start(Flow &flow, const Communication &communication) {
  const ClusterDevice &device = topology.getCluster().device;
  // A member of a permute that receives its own block, or zeros, copies it.
  double least = 0;
  if (communication.kind == CommunicationKind::Permute &&
      llvm::any_of(llvm::enumerate(communication.sources), [](auto source) {
        return source.value() < 0 || source.value() == int64_t(source.index());
      }))
    least = 2 * double(communication.bytes) / device.memoryBandwidth;
  double seconds =
      device.launch + std::max(least, links.getSeconds(flow.traffic));
  double wanted = model.getSeconds(communication, seconds);
  double factor = seconds > 0 ? wanted / seconds : 1;
  double wake = 0;
  for (const Place &member : flow.members)
    wake = std::max(wake, getWake(member));
  flow.load = model.getLoad(communication, wanted);
  int64_t sent = 0;
  for (TrafficPhase &phase : flow.traffic) {
    sent += int64_t(phase.bytes);
    phase.latency *= factor;
    phase.bytes *= factor;
  }
  flow.least = factor * (device.launch + least) + wake;
  flow.traffic.insert(flow.traffic.begin(),
                      TrafficPhase{factor * device.launch + wake, 0, -1});
  for (const Place &member : flow.members) {
    CallTimes &time = times[member.list][member.call];
    time.alone = wanted;
    time.bytes = sent;
  }
  const Place &first = flow.members.front();
  times[first.list][first.call].traffic = flow.traffic;
  flow.beginPhase();
}

/// Gives each receive the next transfers of its channels.
void Engine::takeTransfers() {
  for (Receive &receive : receives)
    llvm::erase_if(receive.channels, [&](const Channel &channel) {
      std::deque<std::shared_ptr<Flow>> &flows = sent[channel];
      if (flows.empty())
        return false;
      receive.flows.push_back(flows.front());
      flows.pop_front();
      return true;
    });
}

/// Ends the receives whose transfers are over. Returns whether there are any.
bool Engine::endReceives() {
  size_t count = receives.size();
  llvm::erase_if(receives, [&](const Receive &receive) {
    if (!receive.channels.empty() ||
        !llvm::all_of(receive.flows,
                      [](const auto &flow) { return flow->hasEnded; }))
      return false;
    end(receive.place);
    return true;
  });
  return receives.size() != count;
}
