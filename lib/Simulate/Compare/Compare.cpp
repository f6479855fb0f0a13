//===- Compare.cpp - A simulation beside real runs ------------------------===//

#include "heddle/Simulate/Compare.h"
#include "heddle/Lower/ProgramFingerprint.h"
#include "heddle/Simulate/CallNumbers.h"
#include "heddle/Simulate/Report.h"
#include "heddle/Support/Median.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <set>

using namespace mlir;
using namespace heddle;

/// The end of an error about a trace of another program.
static constexpr const char *kHint =
    "; give the options of the traced run: MODEL, --plan or --mesh, --batch, "
    "--micro-batches, --seq, --overlap, --profile, --cluster";

namespace {
class Comparer {
public:
  Comparer(const Simulation &simulation, ModuleOp module, const RunTrace &trace)
      : simulation(simulation), numbers(module), trace(trace),
        program(getProgramFingerprint(module)) {
    for (const CallList &list : simulation.lists)
      for (ProgramCall call : list.calls)
        if (call.program)
          programs.insert(call.program.getSymName().str());
  }

  llvm::Expected<Comparison> run() {
    if (!trace.program.empty() && trace.program != program)
      return llvm::createStringError(
          "the trace is of another program or other sizes: expected the "
          "fingerprint " +
          program + " of the program that is simulated, got " + trace.program +
          kHint);
    gather();
    if (tables.empty())
      return llvm::createStringError(
          "the trace has no run of the program that is simulated: see --entry");
    measureStep();
    for (const SimulatedCall &call : simulation.calls)
      if (llvm::Error error = add(call))
        return std::move(error);
    if (simulation.lists.size() == 1)
      result.rest = {result.step.simulated - result.computing.simulated -
                         result.communicating.simulated,
                     result.step.measured - result.computing.measured -
                         result.communicating.measured};
    result.kinds = sort(
        kinds, [](const ComparedRow &row) { return row.seconds.measured; });
    result.operators = sort(operators, [](const ComparedRow &row) {
      return std::abs(row.seconds.simulated - row.seconds.measured);
    });
    return std::move(result);
  }

private:
  using Rows = std::map<std::string, ComparedRow>;

  /// Finds the calls of the simulated programs, and the tables that call them.
  void gather() {
    for (const TracedCall &call : trace.calls) {
      if (!programs.count(call.program))
        continue;
      tables.insert(call.table);
      kindOf[{call.program, call.index}] = call.call;
    }
    times = getCallTimes(trace);
  }

  void measureStep() {
    std::map<std::pair<std::string, int64_t>, double> runs;
    std::set<int64_t> ranks;
    for (const TracedTable &table : trace.tables)
      if (tables.count(table.table)) {
        double &longest = runs[{table.table, table.run}];
        longest = std::max(longest, table.seconds);
        ranks.insert(table.rank);
      }
    std::vector<double> seconds;
    for (const auto &[run, longest] : runs)
      seconds.push_back(longest);
    result.runs = runs.size();
    result.ranks = ranks.size();
    result.step = {simulation.seconds, getMedian(seconds)};
  }

  llvm::Error add(const SimulatedCall &call) {
    rt::DeviceCallOpInterface op = call.op;
    // Transfers between programs belong to none.
    if (simulation.lists[call.list].calls[call.entry].transfer)
      return llvm::Error::success();
    CallNumber number = numbers.get(op);
    std::pair<std::string, int64_t> key(number.program.str(), number.index);
    auto known = kindOf.find(key);
    if (known == kindOf.end() || known->second != getCallKind(op))
      return llvm::createStringError(
          "the trace is of another program: expected call " +
          llvm::Twine(number.index) + " of '" + number.program + "' to be '" +
          getCallKind(op) + "', got " +
          (known == kindOf.end() ? "none" : "'" + known->second + "'") + kHint);
    auto repeat = double(call.repeat);
    // The wait for ranks of other lists does not count: of the ranks of a run,
    // the shortest time counts, which is that of the last one to come.
    SecondsPair seconds = {repeat * (call.end - call.begun),
                           repeat * getMedian(times[key])};
    std::string kind =
        isa<rt::LaunchOp>(op.getOperation()) ? "kernel" : getCallKind(op);
    (call.communicates ? result.communicating : result.computing) += seconds;
    std::string name = kind + " of " + generalizeNames(getOperatorNames(op));
    for (ComparedRow *row : {&kinds[kind], &operators[name]}) {
      row->calls += call.repeat;
      row->seconds += seconds;
    }
    return llvm::Error::success();
  }

  template <typename Weight>
  static std::vector<ComparedRow> sort(const Rows &rows, Weight weigh) {
    std::vector<ComparedRow> sorted;
    for (const auto &[name, row] : rows) {
      sorted.push_back(row);
      sorted.back().name = name;
    }
    llvm::sort(sorted, [&](const auto &a, const auto &b) {
      return std::pair(-weigh(a), a.name) < std::pair(-weigh(b), b.name);
    });
    return sorted;
  }

  const Simulation &simulation;
  CallNumbers numbers;
  const RunTrace &trace;
  const std::string program; ///< the fingerprint
  std::set<std::string> programs, tables;
  std::map<std::pair<std::string, int64_t>, std::string> kindOf;
  std::map<std::pair<std::string, int64_t>, std::vector<double>> times;
  Rows kinds, operators;
  Comparison result;
};
} // namespace

llvm::Expected<Comparison> heddle::compare(const Simulation &simulation,
                                           ModuleOp module,
                                           const RunTrace &trace) {
  return Comparer(simulation, module, trace).run();
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// The most operators that are printed.
static constexpr size_t kMostRows = 10;

static void printPair(llvm::raw_ostream &out, const SecondsPair &seconds) {
  out << llvm::format("%14.3f %12.3f %+9.1f %%", seconds.simulated * 1e3,
                      seconds.measured * 1e3, 100 * seconds.getError());
}

static void printRow(llvm::raw_ostream &out, StringRef name,
                     const SecondsPair &seconds) {
  out << llvm::format("%-24s", name.str().c_str());
  printPair(out, seconds);
  out << '\n';
}

void heddle::printComparison(llvm::raw_ostream &out,
                             const Comparison &comparison) {
  out << "compared with " << comparison.runs << " run(s) of "
      << comparison.ranks << " rank(s)\n"
      << "                          simulated ms  measured ms      error\n";
  printRow(out, "step", comparison.step);
  printRow(out, "  computing", comparison.computing);
  printRow(out, "  communicating", comparison.communicating);
  if (const std::optional<SecondsPair> &rest = comparison.rest)
    out << llvm::format("  waiting less overlap  %14.3f %12.3f\n",
                        rest->simulated * 1e3, rest->measured * 1e3);
  out << "by kind of call\n";
  for (const ComparedRow &row : comparison.kinds)
    printRow(out, "  " + row.name, row.seconds);
  out << "largest differences\n";
  for (const ComparedRow &row :
       llvm::ArrayRef(comparison.operators).take_front(kMostRows)) {
    out << std::string(24, ' ');
    printPair(out, row.seconds);
    out << "  " << row.calls << " x " << row.name << '\n';
  }
}

void heddle::writeComparisonJson(llvm::raw_ostream &stream,
                                 const Comparison &comparison) {
  llvm::json::OStream out(stream, /*IndentSize=*/1);
  auto pair = [&](const SecondsPair &seconds) {
    out.attribute("simulated", seconds.simulated);
    out.attribute("measured", seconds.measured);
    out.attribute("error", seconds.getError());
  };
  auto rows = [&](StringRef key, ArrayRef<ComparedRow> rows) {
    out.attributeArray(key, [&] {
      for (const ComparedRow &row : rows)
        out.object([&] {
          out.attribute("name", row.name);
          out.attribute("calls", row.calls);
          pair(row.seconds);
        });
    });
  };
  out.object([&] {
    out.attribute("runs", comparison.runs);
    out.attribute("ranks", comparison.ranks);
    out.attributeObject("step", [&] { pair(comparison.step); });
    out.attributeObject("computing", [&] { pair(comparison.computing); });
    out.attributeObject("communicating",
                        [&] { pair(comparison.communicating); });
    if (comparison.rest)
      out.attributeObject("rest", [&] {
        out.attribute("simulated", comparison.rest->simulated);
        out.attribute("measured", comparison.rest->measured);
      });
    rows("kinds", comparison.kinds);
    rows("operators", comparison.operators);
  });
  stream << '\n';
}
