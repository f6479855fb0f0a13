//===- GatherTimes.cpp - From traces to a profile -------------------------===//

#include "heddle/Profile/CallKey.h"
#include "heddle/Profile/Measure.h"
#include "heddle/Profile/ProfiledCostModel.h"
#include "heddle/Simulate/CallNumbers.h"
#include "heddle/Simulate/CallWork.h"
#include "heddle/Simulate/Communications.h"
#include "heddle/Simulate/MeshAxes.h"
#include "heddle/Support/Median.h"
#include <set>

using namespace mlir;
using namespace heddle;

/// Communication must run beside a call for at least this fraction of its time.
static constexpr double kBesidePart = 0.9;

/// The clock of a trace counts nanoseconds, and no call takes no time.
static constexpr double kShortest = 1e-9;

/// A run that takes so many times as long as the fastest quarter of the runs is
/// disturbed.
static constexpr double kDisturbed = 1.1;

/// Finds the call of a module that belongs to an event of a trace.
namespace {
class CallFinder {
public:
  explicit CallFinder(ModuleOp module) {
    CallNumbers numbers(module);
    for (auto program : module.getOps<rt::ProgramOp>())
      program->walk([&](rt::DeviceCallOpInterface call) {
        CallNumber number = numbers.get(call);
        calls[{number.program.str(), number.index}] = call;
      });
  }
  rt::DeviceCallOpInterface
  find(const std::pair<std::string, int64_t> &place) const {
    auto known = calls.find(place);
    return known == calls.end() ? nullptr : known->second;
  }

private:
  std::map<std::pair<std::string, int64_t>, rt::DeviceCallOpInterface> calls;
};

/// The seconds of the calls of one key, by the place of each call in its
/// program.
///
/// Places differ: of several products that share an operand, the first one
/// finds the operand in no cache. So a call takes the mean over its places of
/// the median over runs. The sum of these times over a program is the time of
/// the program.
class PlaceTimes {
public:
  using Place = std::pair<std::string, int64_t>;

  void add(const std::string &key, const Place &place,
           ArrayRef<double> seconds) {
    llvm::append_range(times[key][place], seconds);
  }
  /// Calls `use` with each key, its seconds and its number of samples.
  void
  forEach(function_ref<void(const std::string &, double, int64_t)> use) const {
    for (const auto &[key, places] : times) {
      double sum = 0;
      int64_t samples = 0;
      for (const auto &[place, seconds] : places) {
        sum += getMedian(seconds);
        samples += int64_t(seconds.size());
      }
      use(key, sum / double(places.size()), samples);
    }
  }

private:
  std::map<std::string, std::map<Place, std::vector<double>>> times;
};

/// The calls of one rank in one run, in order of their start.
using RunOfRank = std::tuple<std::string, int64_t, int64_t>;
} // namespace

void heddle::dropDisturbedRuns(RunTrace &trace) {
  std::map<std::string, std::map<int64_t, double>> runs; // the longest rank
  for (const TracedTable &table : trace.tables) {
    double &longest = runs[table.table][table.run];
    longest = std::max(longest, table.seconds);
  }
  std::set<std::pair<std::string, int64_t>> disturbed;
  for (const auto &[table, times] : runs) {
    std::vector<double> sorted;
    for (auto [run, seconds] : times)
      sorted.push_back(seconds);
    llvm::sort(sorted);
    double most = kDisturbed * sorted[(sorted.size() - 1) / 4];
    for (auto [run, seconds] : times)
      if (seconds > most)
        disturbed.emplace(table, run);
  }
  auto isDisturbed = [&](const auto &event) {
    return disturbed.count({event.table, event.run}) > 0;
  };
  llvm::erase_if(trace.calls, isDisturbed);
  llvm::erase_if(trace.tables, isDisturbed);
}

static std::map<RunOfRank, std::vector<const TracedCall *>>
groupByRun(const RunTrace &trace) {
  std::map<RunOfRank, std::vector<const TracedCall *>> runs;
  for (const TracedCall &call : trace.calls)
    runs[{call.table, call.run, call.rank}].push_back(&call);
  for (auto &[run, calls] : runs)
    llvm::sort(calls, [](auto *a, auto *b) { return a->start < b->start; });
  return runs;
}

/// Sets the times between calls, and those of a run before and after them.
static void setGaps(MachineProfile &profile, const RunTrace &trace) {
  std::vector<double> gaps, wakes, starts;
  auto runs = groupByRun(trace);
  for (const auto &[run, calls] : runs)
    for (auto [before, after] :
         llvm::zip(calls, llvm::drop_begin(ArrayRef(calls)))) {
      double gap = after->start - before->start - before->seconds;
      (before->stream == after->stream ? gaps : wakes)
          .push_back(std::max(gap, 0.0));
    }
  for (const TracedTable &table : trace.tables) {
    auto known = runs.find({table.table, table.run, table.rank});
    if (known == runs.end() || table.table == kWakeProgram)
      continue;
    const TracedCall &first = *known->second.front(),
                     &last = *known->second.back();
    starts.push_back(table.seconds - (last.start + last.seconds - first.start));
  }
  profile.gap = getMedian(gaps);
  profile.wake = std::max(0.0, getMedian(wakes) - profile.gap);
  profile.start = std::max(0.0, getMedian(starts));
}

void heddle::addAloneTimes(MachineProfile &profile, ModuleOp module,
                           const RunTrace &trace, const MeshTopology &topology,
                           bool links) {
  CallFinder finder(module);
  CallKeys keys(module);
  CallWork works(module);
  MeshAttr mesh;
  for (auto op : module.getOps<MeshOp>())
    mesh = op.getMesh();
  PlaceTimes samples;
  std::map<CollectiveKey, std::map<int64_t, std::vector<double>>> messages;
  for (const auto &[place, seconds] : getCallTimes(trace)) {
    rt::DeviceCallOpInterface call = finder.find(place);
    if (!call || place.first == kWakeProgram)
      continue;
    if (!call.isCommunication()) {
      const std::string &key = keys.get(call);
      OperatorTime &time = profile.operators[key];
      if (time.type.empty()) {
        Work work = works.getWork(call);
        llvm::raw_string_ostream(time.type) << CallWork::getComputeType(call);
        time.flops = work.flops;
        time.bytes = work.bytesRead + work.bytesWritten;
      }
      samples.add(key, place, seconds);
      continue;
    }
    Communication communication = getCommunication(call, topology, mesh);
    AxisMask axes = getAxisMask(communication.axes);
    CollectiveKey key{
        getName(communication.kind).str(), topology.getSize(axes), {}};
    if (links)
      key.links = getLinks(topology, axes);
    llvm::append_range(messages[key][communication.bytes], seconds);
  }
  samples.forEach([&](const std::string &key, double seconds, int64_t count) {
    profile.operators[key].seconds = std::max(seconds, kShortest);
    profile.operators[key].samples = count;
  });
  for (const auto &[key, times] : messages)
    for (const auto &[bytes, seconds] : times)
      profile.collectives[key][bytes] = getMedian(seconds);
  setGaps(profile, trace);
}

void heddle::addBesideTimes(MachineProfile &profile, ModuleOp module,
                            const RunTrace &trace) {
  CallFinder finder(module);
  CallKeys keys(module);
  PlaceTimes samples;
  for (const auto &[run, calls] : groupByRun(trace)) {
    std::vector<std::pair<double, double>> busy; ///< with communication
    for (const TracedCall *call : calls)
      if (call->communicates)
        busy.emplace_back(call->start, call->start + call->seconds);
    size_t first = 0;
    for (const TracedCall *event : calls) {
      rt::DeviceCallOpInterface call =
          finder.find({event->program, event->index});
      if (!call || event->communicates || event->seconds <= 0)
        continue;
      double end = event->start + event->seconds, beside = 0;
      while (first < busy.size() && busy[first].second <= event->start)
        ++first;
      for (size_t i = first; i < busy.size() && busy[i].first < end; ++i)
        beside += std::min(end, busy[i].second) -
                  std::max(event->start, busy[i].first);
      if (beside >= kBesidePart * event->seconds)
        samples.add(keys.get(call), {event->program, event->index},
                    event->seconds);
    }
  }
  samples.forEach([&](const std::string &key, double seconds, int64_t) {
    if (auto known = profile.operators.find(key);
        known != profile.operators.end())
      known->second.beside = seconds;
  });
}
