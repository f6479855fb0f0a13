//===- RunTrace.cpp - Traces of real runs ---------------------------------===//

#include "heddle/Simulate/RunTrace.h"
#include "heddle/Support/LlvmJson.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace heddle;
using llvm::StringRef;
namespace json = llvm::json;

/// Adds an event of the trace. Returns false if it lacks something.
static bool addEvent(RunTrace &trace, const json::Object &event) {
  std::optional<StringRef> phase = event.getString("ph");
  if (phase != "X")
    return phase.has_value();
  const json::Object *arguments = event.getObject("args");
  std::optional<double> start = event.getNumber("ts"),
                        duration = event.getNumber("dur");
  std::optional<int64_t> rank = event.getInteger("pid"),
                         stream = event.getInteger("tid");
  std::optional<StringRef> category = event.getString("cat");
  if (!arguments || !start || !duration || !rank || !stream || !category)
    return false;
  std::optional<StringRef> table = arguments->getString("table");
  std::optional<int64_t> run = arguments->getInteger("run");
  if (!table || !run)
    return false;
  double seconds = *duration * 1e-6;
  if (category == "run") {
    trace.tables.push_back({table->str(), *rank, *run, *start * 1e-6, seconds});
    return true;
  }
  std::optional<StringRef> kind = arguments->getString("call");
  if (!kind)
    return false;
  TracedCall call;
  call.program = arguments->getString("program").value_or("").str();
  call.index = arguments->getInteger("index").value_or(-1);
  call.call = kind->str();
  call.rank = *rank;
  call.stream = *stream;
  call.run = *run;
  call.microBatch = arguments->getInteger("micro_batch").value_or(0);
  call.table = table->str();
  call.communicates = category == "communication";
  call.start = *start * 1e-6;
  call.seconds = seconds;
  trace.calls.push_back(std::move(call));
  return true;
}

std::map<std::pair<std::string, int64_t>, std::vector<double>>
heddle::getCallTimes(const RunTrace &trace) {
  std::map<std::pair<std::string, int64_t>, std::vector<double>> times;
  /// By table, run, micro-batch, program and index.
  using Meeting =
      std::tuple<std::string, int64_t, int64_t, std::string, int64_t>;
  std::map<Meeting, double> meetings;
  for (const TracedCall &call : trace.calls) {
    if (call.index < 0)
      continue;
    if (!call.communicates) {
      times[{call.program, call.index}].push_back(call.seconds);
      continue;
    }
    auto [known, isNew] = meetings.try_emplace(
        {call.table, call.run, call.microBatch, call.program, call.index},
        call.seconds);
    known->second = std::min(known->second, call.seconds);
  }
  for (const auto &[meeting, seconds] : meetings)
    times[{std::get<3>(meeting), std::get<4>(meeting)}].push_back(seconds);
  return times;
}

llvm::Error RunTrace::append(const RunTrace &later) {
  if (tables.empty() && calls.empty()) {
    *this = later;
    return llvm::Error::success();
  }
  if (later.devices != devices)
    return llvm::createStringError(
        "expected a later trace of the same program on " +
        llvm::Twine(devices) + " devices, got one on " +
        llvm::Twine(later.devices));
  bool isKnown = !program.empty() && !later.program.empty();
  if (isKnown && later.program != program)
    return llvm::createStringError(
        "expected a later trace of the program with the fingerprint " +
        program + ", got one of " + later.program);
  if (!isKnown)
    program.clear();
  int64_t runs = 0;
  for (const TracedTable &table : tables)
    runs = std::max(runs, table.run + 1);
  cores = later.cores;
  for (TracedCall call : later.calls) {
    call.run += runs;
    calls.push_back(std::move(call));
  }
  for (TracedTable table : later.tables) {
    table.run += runs;
    tables.push_back(std::move(table));
  }
  return llvm::Error::success();
}

llvm::Expected<RunTrace> heddle::parseRunTrace(StringRef text,
                                               StringRef source) {
  auto fail = [&](const llvm::Twine &message) {
    return llvm::createStringError(llvm::Twine(source) + ": " + message);
  };
  llvm::Expected<json::Value> root = parseLlvmJson(text);
  if (!root)
    return fail(llvm::toString(root.takeError()));
  const json::Object *object = root->getAsObject();
  const json::Object *header = object ? object->getObject("heddle") : nullptr;
  const json::Array *events =
      object ? object->getArray("traceEvents") : nullptr;
  if (!header || !events)
    return fail("expected a trace that `heddle train --trace` wrote, got "
                "another file");
  if (header->getInteger("version") != 1)
    return fail("expected a trace of version 1");
  if (header->getString("source") != "run")
    return fail("expected the trace of a real run (`heddle train --trace`), "
                "got that of a simulation");
  RunTrace trace;
  trace.devices = header->getInteger("devices").value_or(0);
  trace.cores = header->getInteger("cores").value_or(0);
  trace.program = header->getString("program").value_or("").str();
  for (const json::Value &value : *events) {
    const json::Object *event = value.getAsObject();
    if (!event || !addEvent(trace, *event))
      return fail("expected an event with name, times and arguments, got " +
                  llvm::formatv("{0}", value).str().substr(0, 200));
  }
  return trace;
}

llvm::Expected<RunTrace> heddle::loadRunTrace(StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return llvm::createStringError("cannot read '" + path +
                                   "': " + file.getError().message());
  return parseRunTrace((*file)->getBuffer(), path);
}
