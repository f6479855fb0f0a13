//===- TraceData.cpp - What a page shows of a trace -----------------------===//

#include "TraceData.h"
#include "heddle/Support/LlvmJson.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace heddle;
using namespace heddle::report;
using llvm::StringRef;
namespace json = llvm::json;

namespace {
class TraceReader {
public:
  TraceReader(StringRef source, StringRef table)
      : source(source), wanted(table) {}

  llvm::Expected<TraceData> read(StringRef text) {
    llvm::Expected<json::Value> root = parseLlvmJson(text);
    if (!root)
      return fail("expected a trace (JSON) that `heddle simulate --trace` or "
                  "`heddle train --trace` wrote, got a file that is no JSON: " +
                  llvm::toString(root.takeError()));
    json::Object *object = root->getAsObject();
    json::Object *header = object ? object->getObject("heddle") : nullptr;
    const json::Array *events =
        object ? object->getArray("traceEvents") : nullptr;
    if (!header || !events)
      return fail("expected a trace that `heddle simulate --trace` or `heddle "
                  "train --trace` wrote, got another file");
    if (header->getInteger("version") != 1)
      return fail("expected a trace of version 1");
    data.isRun = header->getString("source") == StringRef("run");
    data.cluster = header->getString("cluster").value_or("").str();
    data.devices = header->getInteger("devices").value_or(0);
    if (json::Object *summary = header->getObject("summary"))
      data.summary = std::move(*summary);
    if (!data.isRun && !wanted.empty())
      return fail("--table chooses an entry point of a real run's trace, but "
                  "this is the trace of a simulation, which has one program: "
                  "leave out --table");
    if (data.isRun && !chooseRun(*events))
      return fail(wanted.empty()
                      ? "expected runs, got none"
                      : "expected runs of '" + wanted + "', got none");
    for (const json::Value &value : *events)
      if (const json::Object *event = value.getAsObject())
        add(*event);
    chooseMemory();
    data.seconds = data.isRun ? chosenSeconds
                              : data.summary.getNumber("seconds").value_or(0);
    data.exposed = data.summary.getNumber("exposed").value_or(0);
    if (data.isRun)
      setExposedTimes(data);
    return std::move(data);
  }

private:
  llvm::Error fail(const llvm::Twine &message) {
    return llvm::createStringError(llvm::Twine(source) + ": " + message);
  }

  /// Chooses the table, and its run of median length. A run is as long as its
  /// longest rank.
  bool chooseRun(const json::Array &events) {
    struct Run {
      double start = 0, end = 0, seconds = 0;
    };
    std::map<std::string, std::map<int64_t, Run>> tables;
    for (const json::Value &value : events) {
      const json::Object *event = value.getAsObject();
      const json::Object *arguments =
          event ? event->getObject("args") : nullptr;
      if (!arguments || event->getString("cat") != StringRef("run"))
        continue;
      std::string table = arguments->getString("table").value_or("").str();
      if (!wanted.empty() && table != wanted)
        continue;
      auto [known, isNew] = tables[table].try_emplace(
          arguments->getInteger("run").value_or(0), Run());
      double start = event->getNumber("ts").value_or(0) * 1e-6,
             seconds = event->getNumber("dur").value_or(0) * 1e-6;
      Run &run = known->second;
      run.start = isNew ? start : std::min(run.start, start);
      run.end = std::max(run.end, start + seconds);
      run.seconds = std::max(run.seconds, seconds);
    }
    double longest = -1;
    for (const auto &[table, runs] : tables) {
      std::vector<std::pair<double, int64_t>> sorted;
      for (const auto &[number, run] : runs)
        sorted.emplace_back(run.seconds, number);
      llvm::sort(sorted);
      auto [seconds, number] = sorted[sorted.size() / 2];
      if (seconds <= longest)
        continue;
      longest = seconds;
      origin = runs.at(number).start;
      chosenSeconds = runs.at(number).end - origin;
      data.table = table;
      data.run = number;
      data.runs = int64_t(runs.size());
    }
    return longest >= 0;
  }

  void add(const json::Object &event) {
    StringRef phase = event.getString("ph").value_or("");
    StringRef name = event.getString("name").value_or("");
    int64_t process = event.getInteger("pid").value_or(0);
    const json::Object *arguments = event.getObject("args");
    if (!arguments)
      return;
    double time = event.getNumber("ts").value_or(0) * 1e-6;
    if (phase == "M" && name == "process_name")
      data.processes[process] = arguments->getString("name").value_or("").str();
    else if (phase == "C" && name == "memory")
      memories[process].emplace_back(time,
                                     arguments->getNumber("bytes").value_or(0));
    else if (phase == "X" && event.getString("cat") != StringRef("run"))
      addCall(event, *arguments, process, time);
  }

  void addCall(const json::Object &event, const json::Object &arguments,
               int64_t process, double start) {
    if (data.isRun && (arguments.getString("table") != StringRef(data.table) ||
                       arguments.getInteger("run") != data.run))
      return;
    Call call;
    call.process = process;
    call.stream = event.getInteger("tid").value_or(0);
    call.operators = event.getString("name").value_or("").str();
    call.call = arguments.getString("call").value_or("").str();
    call.axes = arguments.getString("axes").value_or("").str();
    call.communicates = event.getString("cat") == StringRef("communication");
    call.kind = call.communicates
                    ? "communication"
                    : getKind(arguments.getString("work").value_or("kernel"));
    call.start = start - origin;
    call.seconds = event.getNumber("dur").value_or(0) * 1e-6;
    call.exposed = arguments.getNumber("exposed_us").value_or(0) * 1e-6;
    call.bytes = arguments.getInteger("bytes").value_or(0);
    call.repeat = arguments.getInteger("repeat").value_or(1);
    call.waitsFor = arguments.getInteger("waits_for").value_or(-1);
    call.awaitedBy = arguments.getInteger("awaited_by").value_or(-1);
    data.calls.push_back(std::move(call));
  }

  /// Takes the memory of the process that the summary describes.
  void chooseMemory() {
    if (const json::Object *memory = data.summary.getObject("memory"))
      data.memoryOf = memory->getInteger("list").value_or(0);
    data.memory = std::move(memories[data.memoryOf]);
  }

  /// Returns the page's name of a kind of computation.
  static std::string getKind(StringRef work) {
    return work == "matmul" ? "product" : work.str();
  }

  std::string source, wanted;
  TraceData data;
  std::map<int64_t, std::vector<std::pair<double, double>>> memories;
  double origin = 0, chosenSeconds = 0;
};
} // namespace

llvm::Expected<TraceData>
heddle::report::readTrace(StringRef text, StringRef source, StringRef table) {
  return TraceReader(source, table).read(text);
}

void heddle::report::setExposedTimes(TraceData &data) {
  std::map<int64_t, std::vector<int64_t>> processes;
  for (size_t i = 0; i < data.calls.size(); ++i)
    processes[data.calls[i].process].push_back(int64_t(i));
  for (auto &[process, calls] : processes) {
    llvm::sort(calls, [&](int64_t a, int64_t b) {
      return std::pair(data.calls[a].start, a) <
             std::pair(data.calls[b].start, b);
    });
    std::vector<int64_t> communications;
    double free = 0, exposed = 0; ///< since when nothing is computed
    int64_t last = -1;            ///< the last computation
    auto blame = [&](double until, int64_t next) {
      llvm::sort(communications, [&](int64_t a, int64_t b) {
        return std::pair(data.calls[a].getEnd(), a) <
               std::pair(data.calls[b].getEnd(), b);
      });
      double at = free;
      for (int64_t index : communications) {
        Call &call = data.calls[index];
        if (call.awaitedBy < 0 && call.getEnd() <= until)
          call.awaitedBy = next;
        double from = std::max(at, call.start),
               to = std::min(until, call.getEnd());
        if (to <= from)
          continue;
        call.exposed += to - from;
        exposed += to - from;
        at = to;
      }
      llvm::erase_if(communications, [&](int64_t index) {
        return data.calls[index].getEnd() <= until;
      });
    };
    for (int64_t index : calls) {
      Call &call = data.calls[index];
      if (call.communicates) {
        communications.push_back(index);
        if (last >= 0 && data.calls[last].getEnd() <= call.start)
          call.waitsFor = last;
        continue;
      }
      if (call.start > free)
        blame(call.start, index);
      free = std::max(free, call.getEnd());
      last = index;
    }
    blame(data.seconds, -1);
    data.exposed = std::max(data.exposed, exposed);
  }
}
