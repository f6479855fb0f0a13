//===- Simulate.cpp - Times of rt programs on a cluster -------------------===//

#include "heddle/Simulate/Simulate.h"
#include "../Dataflow/CriticalPath.h"
#include "../Dataflow/MemoryCurve.h"
#include "Engine.h"
#include "heddle/Simulate/MeshAxes.h"
#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

double Simulation::getBubble(unsigned list) const {
  double busy = times[list].computing + times[list].exposed;
  return seconds > 0 ? std::max(0.0, 1 - busy / seconds) : 0;
}

double Simulation::getBubble() const {
  double sum = 0;
  for (unsigned list = 0; list < lists.size(); ++list)
    sum += getBubble(list);
  return lists.empty() ? 0 : sum / double(lists.size());
}

double StepBounds::get() const {
  double most = std::max(compute, criticalPath.value_or(0));
  for (double link : links)
    most = std::max(most, link);
  return most;
}

std::string StepBounds::getName(const Cluster &cluster) const {
  double path = criticalPath.value_or(0);
  for (auto [seconds, level] : llvm::zip(links, cluster.levels))
    if (seconds == get() && seconds > std::max(compute, path))
      return "links of " + level.name;
  return path > compute ? "critical path" : "compute";
}

namespace {
class Simulator {
public:
  Simulator(ModuleOp module, ArrayRef<CallList> lists, LinkTraffic &links,
            MeshAttr mesh, CostModel &model, const SimulateOptions &options)
      : lists(lists), links(links), mesh(mesh), model(model), options(options) {
    result.lists = lists.vec();
    const Cluster &cluster = links.getTopology().getCluster();
    result.cluster = cluster.name;
    result.devices = links.getTopology().getNumDevices();
    if (options.plansMemory)
      plans = getDeviceMemoryPlans(module);
    pipeline = module->getAttrOfType<PipelineAttr>(kPipelineAttrName);
    result.times.resize(lists.size());
    RankDevices devices(module, cluster);
    for (const CallList &list : lists) {
      MemoryUse &memory = result.memories.emplace_back();
      memory.list = unsigned(result.memories.size() - 1);
      if (options.plansMemory)
        memory.plan = plans[getDeviceOfPipeline(list)];
      memory.capacity = devices.get(list.ranks).memory;
      if (devices.isMixed(list.ranks))
        result.mixed.push_back(devices.get(list.ranks).kind);
    }
    for (unsigned list = 0; list < lists.size(); ++list)
      for (int32_t stream = 0; stream < kMaxStreams; ++stream)
        result.streams.push_back({list, stream, 0, 0, 0});
  }

  FailureOr<Simulation> run();

private:
  /// Returns the index of the memory plan of a list's ranks.
  size_t getDeviceOfPipeline(const CallList &list) const {
    if (pipeline && list.ranks)
      for (CoordinatesAttr where : list.ranks.getWhere())
        if (where.getAxis() == pipeline.getAxis() &&
            size_t(where.getValues().front()) < plans.size())
          return where.getValues().front();
    return 0;
  }
  FailureOr<std::vector<int64_t>> getDevices(const CallList &list);
  double getLongestPath(ArrayRef<CallQueues> queues,
                        ArrayRef<std::vector<CallTimes>> times);
  LogicalResult runTogether(ArrayRef<CallQueues> queues);
  void add(unsigned list, const CallQueues &queues, ArrayRef<CallTimes> times,
           ArrayRef<CallIndex> first);

  ArrayRef<CallList> lists;
  LinkTraffic &links;
  MeshAttr mesh;
  CostModel &model;
  const SimulateOptions &options;
  Simulation result;
  std::vector<DeviceMemoryPlan> plans; ///< by device of the pipeline
  PipelineAttr pipeline;               ///< null: none
  std::vector<double> patternBytes;    ///< by pattern, of the whole step
};
} // namespace

FailureOr<std::vector<int64_t>> Simulator::getDevices(const CallList &list) {
  for (const ProgramCall &call : list.calls)
    if (!call.transfer &&
        call.program->getAttrOfType<RanksAttr>(kRanksAttrName) != list.ranks) {
      rt::ProgramOp program = call.program;
      return program.emitOpError()
             << "expected the programs of a list to be of the same ranks";
    }
  return mesh ? getDevicesOfRanks(mesh, list.ranks) : std::vector<int64_t>{0};
}

/// Adds the calls of a list in one part of the step.
void Simulator::add(unsigned list, const CallQueues &queues,
                    ArrayRef<CallTimes> times, ArrayRef<CallIndex> first) {
  auto repeat = double(queues.repeat);
  for (auto [op, entry, time] :
       llvm::zip(queues.calls, queues.entries, times)) {
    SimulatedCall call;
    call.op = op;
    int32_t number = call.op.getStream();
    call.list = list;
    call.entry = entry;
    call.repeat = queues.repeat;
    call.start = result.seconds + time.start;
    call.end = result.seconds + time.end;
    call.communicates = call.op.isCommunication();
    call.begun = call.communicates ? result.seconds + time.begun : call.start;
    call.bytes = time.bytes;
    if (time.waitedFor.list >= 0)
      call.waitedFor = first[time.waitedFor.list] + time.waitedFor.call;
    StreamTimes &stream = result.streams[list * kMaxStreams + number];
    stream.calls += queues.repeat;
    double seconds = call.end - call.begun;
    if (call.communicates) {
      stream.communicating += repeat * seconds;
      call.exposed = time.exposed;
      call.hidden = std::max(0.0, seconds - time.exposed);
      result.times[list].exposed += repeat * time.exposed;
    } else {
      stream.computing += repeat * seconds;
      if (number == kComputeStream)
        result.times[list].computing += repeat * seconds;
    }
    for (const TrafficPhase &phase : time.traffic)
      if (phase.pattern >= 0) {
        if (size_t(phase.pattern) >= patternBytes.size())
          patternBytes.resize(phase.pattern + 1);
        patternBytes[phase.pattern] += repeat * phase.bytes;
      }
    result.calls.push_back(call);
  }
}

/// Returns the seconds of the longest chain of a part's calls.
double Simulator::getLongestPath(ArrayRef<CallQueues> queues,
                                 ArrayRef<std::vector<CallTimes>> times) {
  std::vector<size_t> first, order;
  size_t count = 0;
  for (const CallQueues &list : queues) {
    first.push_back(count);
    count += list.calls.size();
  }
  std::vector<PathCall> calls;
  std::vector<double> ends;
  for (auto [list, part] : llvm::enumerate(queues))
    for (auto [op, entry, time] :
         llvm::zip(part.calls, part.entries, times[list])) {
      PathCall &call = calls.emplace_back(
          PathCall{op, time.alone, unsigned(list), &lists[list].calls[entry]});
      if (time.send.list >= 0)
        call.send = int64_t(first[time.send.list] + time.send.call);
      order.push_back(order.size());
      ends.push_back(time.end);
    }
  // A call must come after the calls that it waits for. Within one list, the
  // order of issue ensures this. Among several lists, calls are sorted by their
  // ends; a receive ends together with its send, so sends come first.
  auto isSend = [&](size_t index) {
    return isa<rt::SendOp>(calls[index].op.getOperation());
  };
  if (queues.size() > 1)
    llvm::sort(order, [&](size_t a, size_t b) {
      return std::tuple(ends[a], !isSend(a), a) <
             std::tuple(ends[b], !isSend(b), b);
    });
  return getCriticalPath(calls, order);
}

/// Simulates a part of the step that all lists begin at the same time.
LogicalResult Simulator::runTogether(ArrayRef<CallQueues> queues) {
  FailureOr<std::vector<std::vector<CallTimes>>> times =
      runQueues(queues, links, mesh, model);
  if (failed(times))
    return failure();
  SmallVector<CallIndex> first;
  CallIndex count = result.calls.size();
  for (const CallQueues &list : queues) {
    first.push_back(count);
    count += list.calls.size();
  }
  double length = 0, compute = 0;
  for (auto [list, part] : llvm::enumerate(queues)) {
    double busy = 0;
    for (auto [call, time] : llvm::zip(part.calls, (*times)[list])) {
      rt::DeviceCallOpInterface op = call;
      busy += op.isCommunication() ? 0 : time.alone;
      length = std::max(length, time.end);
    }
    compute = std::max(compute, busy);
    add(list, part, (*times)[list], first);
  }
  double path = getLongestPath(queues, *times);
  auto repeat = double(queues.front().repeat);
  result.seconds += repeat * length;
  result.bounds.compute += repeat * compute;
  result.bounds.criticalPath =
      result.bounds.criticalPath.value_or(0) + repeat * path;
  return success();
}

/// Sets for each call that others waited for the earliest of these others.
static void fillWaitedBy(MutableArrayRef<SimulatedCall> calls) {
  for (auto [index, call] : llvm::enumerate(calls)) {
    if (call.waitedFor < 0)
      continue;
    CallIndex &waiter = calls[call.waitedFor].waitedBy;
    if (waiter < 0 || call.start < calls[waiter].start)
      waiter = index;
  }
}

FailureOr<Simulation> Simulator::run() {
  std::vector<std::vector<int64_t>> devices;
  for (const CallList &list : lists) {
    FailureOr<std::vector<int64_t>> ranks = getDevices(list);
    if (failed(ranks))
      return failure();
    devices.push_back(std::move(*ranks));
    llvm::SmallPtrSet<Operation *, 8> programs;
    for (ProgramCall call : list.calls)
      if (call.program && programs.insert(call.program).second)
        call.program.walk([&](rt::WhileOp) { result.hasLoops = true; });
  }
  if (lists.size() == 1) {
    for (const CallQueues &part :
         makeParts(lists[0], devices[0], options.loopIterations))
      if (failed(runTogether(part)))
        return failure();
  } else {
    std::vector<CallQueues> queues;
    for (auto [list, ranks] : llvm::zip(lists, devices))
      queues.push_back(makeQueues(list, ranks, options.loopIterations));
    if (failed(runTogether(queues)))
      return failure();
  }
  result.seconds += model.getStart();
  fillWaitedBy(result.calls);
  result.bounds.links = links.getBusiestLinks(patternBytes);
  for (const ListTimes &list : result.times)
    result.exposed = std::max(result.exposed, list.exposed);
  llvm::erase_if(result.streams,
                 [](const StreamTimes &stream) { return stream.calls == 0; });
  fillMemoryCurves(result);
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// Steps without a barrier
//===----------------------------------------------------------------------===//

static int32_t getStream(const ProgramCall &call) {
  return call.transfer ? rt::DeviceCallOpInterface(call.transfer).getStream()
                       : kComputeStream;
}

/// Returns a list that runs several times. As in the runtime, a rank begins a
/// run when all of its own streams have ended the one before.
static CallList repeatList(const CallList &list, unsigned times) {
  CallList repeated = list;
  auto count = unsigned(list.calls.size());
  std::map<int32_t, unsigned> last; // by stream
  for (auto [i, call] : llvm::enumerate(list.calls))
    last[getStream(call)] = i;
  for (unsigned run = 1; run < times; ++run) {
    std::set<int32_t> begun;
    for (ProgramCall call : list.calls) {
      for (auto &other : call.after)
        other += run * count;
      int32_t stream = getStream(call);
      if (begun.insert(stream).second)
        for (auto [other, entry] : last)
          if (other != stream)
            call.after.push_back((run - 1) * count + entry);
      repeated.calls.push_back(std::move(call));
    }
  }
  return repeated;
}

/// Sets the times of a step that overlaps with other steps: the time from the
/// end of a run on all lists to the end of the next run, and what each list
/// computes and waits for in between.
static LogicalResult setPeriod(Simulation &step, ModuleOp module,
                               ArrayRef<CallList> lists, LinkTraffic &links,
                               MeshAttr mesh, CostModel &model,
                               const SimulateOptions &options) {
  constexpr unsigned kRuns = 3; // the first one begins with an empty pipeline
  std::vector<CallList> repeated;
  for (const CallList &list : lists)
    repeated.push_back(repeatList(list, kRuns));
  SimulateOptions timesAlone = options;
  timesAlone.plansMemory = false;
  FailureOr<Simulation> simulation =
      Simulator(module, repeated, links, mesh, model, timesAlone).run();
  if (failed(simulation))
    return failure();
  double ends[kRuns] = {};
  for (ListTimes &times : step.times)
    times.exposed = 0;
  for (const SimulatedCall &call : simulation->calls) {
    auto run = call.entry / lists[call.list].calls.size();
    ends[run] = std::max(ends[run], call.end);
    if (run == kRuns - 1)
      step.times[call.list].exposed += double(call.repeat) * call.exposed;
  }
  step.seconds = ends[kRuns - 1] - ends[kRuns - 2];
  step.exposed = 0;
  for (const ListTimes &times : step.times)
    step.exposed = std::max(step.exposed, times.exposed);
  // A step may take less time than its longest chain, because it overlaps with
  // other steps. So the chain is no bound.
  step.bounds.criticalPath.reset();
  return success();
}

FailureOr<Simulation> heddle::simulate(ModuleOp module,
                                       ArrayRef<CallList> lists,
                                       const Cluster &cluster, CostModel &model,
                                       const SimulateOptions &options) {
  MeshAttr mesh;
  for (auto op : module.getOps<MeshOp>()) {
    if (mesh)
      return op.emitOpError() << "expected one mesh in a module that is "
                                 "simulated";
    mesh = op.getMesh();
  }
  llvm::Expected<MeshTopology> topology = makeTopology(module, cluster);
  if (!topology)
    return module.emitError() << llvm::toString(topology.takeError());
  LinkTraffic links(std::move(*topology));
  FailureOr<Simulation> result =
      Simulator(module, lists, links, mesh, model, options).run();
  if (failed(result) || lists.size() == 1 || lists.front().hasBarrier)
    return result;
  if (failed(setPeriod(*result, module, lists, links, mesh, model, options)))
    return failure();
  return result;
}
