//===- TextReport.cpp - Simulations for people ----------------------------===//

#include "heddle/Simulate/Report.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <map>

using namespace mlir;
using namespace heddle;

/// The most rows of collectives, and of values in memory, that are printed.
static constexpr size_t kMostRows = 10;

std::string heddle::getCallKind(rt::DeviceCallOpInterface call) {
  if (auto launch = dyn_cast<rt::LaunchOp>(call.getOperation()))
    return launch.getKernel().str();
  return call->getName().stripDialect().str();
}

std::string heddle::getOperatorNames(rt::DeviceCallOpInterface call) {
  ArrayRef<StringAttr> names = call.getServes().getNames();
  if (names.size() <= 2)
    return llvm::join(
        llvm::map_range(names, [](StringAttr name) { return name.getValue(); }),
        ", ");
  return names.front().str() + " and " + std::to_string(names.size() - 1) +
         " more";
}

std::string heddle::generalizeNames(StringRef names) {
  std::string general;
  while (!names.empty()) {
    StringRef word = names.take_until([](char c) { return c == '.'; });
    names = names.drop_front(word.size());
    bool isNumber = !word.empty() && llvm::all_of(word, llvm::isDigit);
    general += isNumber ? "*" : word.str();
    if (names.consume_front("."))
      general += '.';
  }
  return general;
}

std::string heddle::getAxisNames(rt::DeviceCallOpInterface call) {
  std::string names;
  if (auto axes = call->getAttrOfType<AxisListAttr>("axes"))
    for (StringAttr axis : axes.getAxes())
      names += (names.empty() ? "" : ", ") + axis.str();
  return names;
}

std::string heddle::getRankNames(const CallList &list) {
  if (!list.ranks)
    return "all ranks";
  std::string names = "ranks";
  for (CoordinatesAttr where : list.ranks.getWhere()) {
    names += " " + where.getAxis().str();
    for (int64_t value : where.getValues())
      names += " " + std::to_string(value);
  }
  return names;
}

static double milliseconds(double seconds) { return seconds * 1e3; }
static double mebibytes(double bytes) { return bytes / double(1 << 20); }

namespace {
class Printer {
public:
  Printer(llvm::raw_ostream &out, const Simulation &simulation,
          const Cluster &cluster)
      : out(out), simulation(simulation), cluster(cluster) {}

  void print() {
    out << "simulated on " << simulation.devices
        << " device(s) of the cluster '" << simulation.cluster << "'\n";
    printStep();
    if (simulation.lists.size() > 1)
      printLists();
    printStreams();
    printCollectives();
    printMemory();
    for (const std::string &kinds : simulation.mixed)
      out << "ranks that do the same have several kinds of device (" << kinds
          << "): they take the time of the weakest, and have its memory\n";
    if (simulation.hasLoops)
      out << "the program has loops of unknown length: see --loop-iterations\n";
  }

private:
  void printTime(StringRef name, double seconds, const Twine &note = "") {
    std::string text = note.str();
    out << llvm::format("%-24s %12.3f ms%s%s\n", name.str().c_str(),
                        milliseconds(seconds), text.empty() ? "" : "  ",
                        text.c_str());
  }
  std::string percent(double part) const {
    std::string text;
    if (simulation.seconds > 0)
      llvm::raw_string_ostream(text)
          << llvm::format("%.1f %%", 100 * part / simulation.seconds);
    return text;
  }

  void printStep() {
    const StepBounds &bounds = simulation.bounds;
    printTime("step", simulation.seconds);
    printTime("  communication exposed", simulation.exposed,
              percent(simulation.exposed));
    if (simulation.lists.size() > 1) {
      double bubble = simulation.getBubble() * simulation.seconds;
      printTime("  bubble", bubble, percent(bubble) + ", mean of all ranks");
    }
    double bound = bounds.get();
    printTime("lower bound", bound,
              bounds.getName(cluster) + ", " + percent(bound) + " of the step");
    printTime("  compute", bounds.compute);
    for (auto [seconds, level] : llvm::zip(bounds.links, cluster.levels))
      printTime("  links of " + level.name, seconds);
    if (bounds.criticalPath)
      printTime("  critical path", *bounds.criticalPath);
  }

  void printLists() {
    out << "ranks               computing ms  exposed ms   bubble  slots MiB  "
           "memory MiB\n";
    for (auto [index, list] : llvm::enumerate(simulation.lists)) {
      const ListTimes &times = simulation.times[index];
      const MemoryUse &memory = simulation.memories[index];
      out << llvm::format(
          "  %-18s %11.3f %11.3f %6.1f %% %10.1f %11.1f\n",
          getRankNames(list).c_str(), milliseconds(times.computing),
          milliseconds(times.exposed), 100 * simulation.getBubble(index),
          mebibytes(double(memory.plan.slots)),
          mebibytes(double(memory.plan.total())));
    }
    if (llvm::none_of(simulation.memories, [](const MemoryUse &memory) {
          return memory.forWeights > 0;
        }))
      return;
    out << "of the slots        in flight MiB  needed by weights' passes alone "
           "MiB\n";
    for (auto [index, list] : llvm::enumerate(simulation.lists)) {
      const MemoryUse &memory = simulation.memories[index];
      out << llvm::format("  %-18s %12.1f %12.1f\n", getRankNames(list).c_str(),
                          mebibytes(double(memory.inFlight)),
                          mebibytes(double(memory.forWeights)));
    }
  }

  void printStreams() {
    out << "streams               calls     computing ms  communicating ms\n";
    for (const StreamTimes &stream : simulation.streams) {
      std::string name = "  " + std::to_string(stream.stream);
      if (simulation.lists.size() > 1)
        name += " of " + getRankNames(simulation.lists[stream.list]);
      out << llvm::format("%-18s %8lld   %14.3f    %14.3f\n", name.c_str(),
                          static_cast<long long>(stream.calls),
                          milliseconds(stream.computing),
                          milliseconds(stream.communicating));
    }
  }

  /// One row for all calls that differ only in the numbers of their layers.
  struct Row {
    double weight = 0, hidden = 0; ///< rows of the largest weight are printed
    int64_t count = 0;
    const SimulatedCall *call = nullptr; ///< the most exposed one
  };
  /// By the text that is printed, and the bytes of a message: those of
  /// different sizes are different rows.
  using Rows = std::map<std::pair<std::string, int64_t>, Row>;

  /// Returns the rows of the largest weights.
  static std::vector<std::pair<Rows::key_type, Row>> sort(const Rows &rows) {
    std::vector<std::pair<Rows::key_type, Row>> sorted(rows.begin(),
                                                       rows.end());
    llvm::sort(sorted, [](const auto &a, const auto &b) {
      return std::tie(b.second.weight, a.first) <
             std::tie(a.second.weight, b.first);
    });
    if (sorted.size() > kMostRows)
      sorted.resize(kMostRows);
    return sorted;
  }

  std::string describe(CallIndex index) const {
    if (index < 0)
      return "-";
    const SimulatedCall &call = simulation.calls[index];
    return getCallKind(call.op) + " " +
           generalizeNames(getOperatorNames(call.op));
  }

  void printCollectives() {
    double bytes = 0, hidden = 0, exposed = 0;
    int64_t count = 0;
    Rows rows;
    for (const SimulatedCall &call : simulation.calls) {
      if (!call.communicates)
        continue;
      auto repeat = double(call.repeat);
      count += call.repeat;
      bytes += repeat * double(call.bytes);
      hidden += repeat * call.hidden;
      exposed += repeat * call.exposed;
      Row &row = rows[{getCallKind(call.op) + " over " + getAxisNames(call.op) +
                           ", of " + generalizeNames(getOperatorNames(call.op)),
                       call.bytes}];
      row.weight += repeat * call.exposed;
      row.hidden += repeat * call.hidden;
      row.count += call.repeat;
      if (!row.call || call.exposed > row.call->exposed)
        row.call = &call;
    }
    if (count == 0)
      return;
    out << "collectives               " << count
        << llvm::format(" in %.3f ms, of which %.3f ms are hidden; ",
                        milliseconds(hidden + exposed), milliseconds(hidden))
        << (simulation.lists.size() > 1 ? "one device of each stage sends "
                                        : "a device sends ")
        << llvm::format("%.1f MiB\n", mebibytes(bytes));
    if (exposed == 0)
      return;
    out << "   exposed ms    hidden ms   times   MiB each\n";
    for (const auto &[key, row] : sort(rows)) {
      if (row.weight == 0)
        break;
      out << llvm::format("  %11.3f  %11.3f  %6lld  %9.2f  ",
                          milliseconds(row.weight), milliseconds(row.hidden),
                          static_cast<long long>(row.count),
                          mebibytes(double(row.call->bytes)))
          << key.first << "\n"
          << std::string(14, ' ') << "waits for "
          << describe(row.call->waitedFor) << "; awaited by "
          << describe(row.call->waitedBy) << "\n";
    }
  }

  void printBytes(StringRef name, int64_t bytes) {
    if (bytes > 0)
      out << llvm::format("  %-22s %16lld bytes %10.1f MiB\n",
                          name.str().c_str(), static_cast<long long>(bytes),
                          mebibytes(double(bytes)));
  }

  /// Names the ranks of each list that does not fit into their devices.
  void printExcesses() {
    for (auto [list, memory] : llvm::zip(simulation.lists, simulation.memories))
      if (memory.plan.total() > memory.capacity)
        out << "  " << getRankNames(list)
            << llvm::format(": %.1f MiB of %.1f MiB\n",
                            mebibytes(double(memory.plan.total())),
                            mebibytes(double(memory.capacity)));
  }

  void printMemory() {
    const MemoryUse &memory = simulation.memory;
    const DeviceMemoryPlan &plan = memory.plan;
    bool areEqual =
        llvm::all_of(simulation.memories, [&](const MemoryUse &other) {
          return other.capacity == memory.capacity;
        });
    out << (simulation.lists.size() == 1 ? "memory of each device\n"
            : areEqual                   ? "memory of the largest device\n"
                       : "memory of the device with the least room\n");
    for (const MemoryPart &part : getMemoryParts(plan))
      printBytes(part.name, part.bytes);
    printBytes("in all", plan.total());
    if (plan.total() > memory.capacity)
      out << llvm::format("  more than the %.1f MiB of a device of '",
                          mebibytes(double(memory.capacity)))
          << simulation.cluster << "'\n";
    if (!areEqual)
      printExcesses();
    out << llvm::format("in use at the peak       %16lld bytes %10.1f MiB, at "
                        "%.3f ms\n",
                        static_cast<long long>(memory.peak),
                        mebibytes(double(memory.peak)),
                        milliseconds(memory.peakTime));
    Rows rows;
    for (const LiveValue &value : memory.aliveAtPeak) {
      rt::DeviceCallOpInterface writer = simulation.calls[value.writer].op;
      Row &row = rows[{stringifyDataKind(writer.getServes().getKind()).str() +
                           " of " + generalizeNames(getOperatorNames(writer)) +
                           ", by " + getCallKind(writer),
                       0}];
      row.weight += double(value.bytes);
      ++row.count;
    }
    for (const auto &[key, row] : sort(rows))
      out << llvm::format("  %10.2f MiB in %lld value(s)  ",
                          mebibytes(row.weight),
                          static_cast<long long>(row.count))
          << key.first << "\n";
    if (rows.size() > kMostRows)
      out << "  and smaller ones of " << rows.size() - kMostRows
          << " other kinds\n";
  }

  llvm::raw_ostream &out;
  const Simulation &simulation;
  const Cluster &cluster;
};
} // namespace

void heddle::printSimulation(llvm::raw_ostream &out,
                             const Simulation &simulation,
                             const Cluster &cluster) {
  Printer(out, simulation, cluster).print();
}
