//===- Report.cpp - Traces as pages ---------------------------------------===//

#include "heddle/Report/Report.h"
#include "TraceData.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace heddle;
using namespace heddle::report;
using llvm::StringRef;
namespace json = llvm::json;

static constexpr const char kPage[] =
#include "Page.inc"
    ;
static constexpr const char kPlanPage[] =
#include "Plan.inc"
    ;
static constexpr const char kFrontPage[] =
#include "Front.inc"
    ;

/// The most processes that a page shows.
static constexpr size_t kMostProcesses = 16;

namespace {
/// Strings by number, so that the page holds each one once.
class Names {
public:
  int64_t get(const std::string &name) {
    return known.try_emplace(name, int64_t(known.size())).first->second;
  }
  json::Array list() const {
    std::vector<std::string> names(known.size());
    for (const auto &[name, number] : known)
      names[number] = name;
    return json::Array(names);
  }

private:
  std::map<std::string, int64_t> known;
};
} // namespace

/// Returns a call as page.html reads it.
static json::Value makeCall(const TraceData &data, const Call &call,
                            Names &names) {
  auto describe = [&](int64_t index) -> int64_t {
    if (index < 0 || index >= int64_t(data.calls.size()))
      return -1;
    const Call &other = data.calls[index];
    return names.get(other.call + " " + other.operators);
  };
  return json::Array{call.start,
                     call.seconds,
                     names.get(call.kind),
                     names.get(call.call),
                     names.get(call.operators),
                     call.exposed,
                     call.bytes,
                     names.get(call.axes),
                     describe(call.waitsFor),
                     describe(call.awaitedBy),
                     call.repeat};
}

namespace {
/// Which of the trace's processes the page shows.
struct Shown {
  std::set<int64_t> processes;
  int64_t mostExposed = 0; ///< whose computation waits longest
  size_t all = 0;          ///< that have calls
};
} // namespace

/// Chooses the first processes, and the one whose computation waits longest for
/// communication.
static Shown chooseProcesses(const TraceData &data) {
  std::map<int64_t, double> exposed;
  for (const Call &call : data.calls)
    exposed[call.process] += double(call.repeat) * call.exposed;
  Shown shown;
  shown.all = exposed.size();
  double most = -1;
  for (auto [process, seconds] : exposed) {
    if (shown.processes.size() < kMostProcesses)
      shown.processes.insert(process);
    if (seconds > most) {
      most = seconds;
      shown.mostExposed = process;
    }
  }
  if (shown.all > 0 && !shown.processes.count(shown.mostExposed)) {
    shown.processes.erase(std::prev(shown.processes.end()));
    shown.processes.insert(shown.mostExposed);
  }
  return shown;
}

static json::Value makeData(const TraceData &data,
                            const ReportOptions &options) {
  Names names;
  Shown shown = chooseProcesses(data);
  auto getProcessName = [&](int64_t process) {
    auto name = data.processes.find(process);
    return name == data.processes.end() ? std::string() : name->second;
  };
  std::map<int64_t, std::map<int64_t, json::Array>> streams;
  for (const Call &call : data.calls)
    if (shown.processes.count(call.process))
      streams[call.process][call.stream].push_back(makeCall(data, call, names));
  json::Array processes;
  for (auto &[process, lanes] : streams) {
    json::Array list;
    for (auto &[stream, calls] : lanes)
      list.push_back(
          json::Object{{"stream", stream}, {"calls", std::move(calls)}});
    processes.push_back(json::Object{{"name", getProcessName(process)},
                                     {"streams", std::move(list)}});
  }
  json::Array memory;
  for (auto [time, bytes] : data.memory)
    memory.push_back(json::Array{time, bytes});
  return json::Object{{"title", options.title},
                      {"run", data.isRun},
                      {"cluster", data.cluster},
                      {"devices", data.devices},
                      {"seconds", data.seconds},
                      {"exposed", data.exposed},
                      {"table", data.table},
                      {"number", data.run},
                      {"runs", data.runs},
                      {"ranks", int64_t(data.processes.size())},
                      {"processes", std::move(processes)},
                      {"all_processes", int64_t(shown.all)},
                      {"most_exposed", getProcessName(shown.mostExposed)},
                      {"memory", std::move(memory)},
                      {"memory_of", getProcessName(data.memoryOf)},
                      {"summary", json::Object(data.summary)},
                      {"names", names.list()}};
}

static std::string replaceAll(std::string text, StringRef from, StringRef to) {
  for (size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// Puts a title and JSON text into a page.
static std::string fillPage(const char *page, StringRef title, StringRef data) {
  // The text of a script ends at "</script". JSON has '<' in strings only.
  std::string safe;
  for (char c : data)
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  std::string escaped;
  llvm::raw_string_ostream stream(escaped);
  llvm::printHTMLEscaped(title, stream);
  return replaceAll(replaceAll(page, "PAGE_TITLE", stream.str()), "PAGE_DATA",
                    safe);
}

std::string heddle::makePlanPage(StringRef explanation, StringRef title) {
  return fillPage(kPlanPage, title, explanation);
}

std::string heddle::makeFrontPage(StringRef front, StringRef title) {
  return fillPage(kFrontPage, title, front);
}

llvm::Expected<std::string> heddle::makeReport(StringRef text, StringRef source,
                                               const ReportOptions &options) {
  llvm::Expected<TraceData> data = readTrace(text, source, options.table);
  if (!data)
    return data.takeError();
  return fillPage(kPage, options.title,
                  llvm::formatv("{0}", makeData(*data, options)).str());
}
