//===- Trace.cpp - Recorded calls of a session's last runs ----------------===//

#include "session/state/Trace.h"
#include "session/state/CallNames.h"
#include "session/state/SessionState.h"
#include "support/Message.h"

#include <algorithm>
#include <dlfcn.h>
#include <fstream>
#include <iomanip>

namespace heddle::runtime {

using Json = nlohmann::json;

/// The thread of a trace that shows whole runs. Streams have lower numbers.
static constexpr int32_t runThread = 100;

Trace::Trace(size_t devices, size_t tables, size_t keep)
    : keep(std::max<size_t>(keep, 1)),
      counts(devices, std::vector<int64_t>(tables)) {
  runs.resize(devices);
  for (auto &device : runs)
    device.assign(tables, std::vector<TracedRun>(this->keep));
}

void Trace::beginRun(SessionState &state, size_t device, size_t table) {
  int64_t number = counts[device][table]++;
  TracedRun &run = current(device, table);
  run.number = number;
  run.events.clear();
  state.devices[device].device->trace = &run.events;
}

namespace {
class Writer {
public:
  Writer(const SessionState &state, std::ostream &out)
      : state(state), out(out),
        names(static_cast<const char *>(dlsym(state.library, "heddle_calls"))) {
    out << std::fixed << std::setprecision(3);
  }

  void begin() {
    out << R"({"displayTimeUnit":"ms","heddle":{"version":1,"source":"run",)"
        << R"("devices":)" << state.manifest.numDevices()
        << ",\"cores\":" << state.cores;
    if (!state.manifest.programHash.empty())
      out << ",\"program\":" << Json(state.manifest.programHash).dump();
    out << "},\n\"traceEvents\":[\n";
  }
  void end() { out << "\n]}\n"; }

  void writeName(int32_t rank, int32_t thread, const std::string &name) {
    beginEvent();
    out << R"({"ph":"M","name":")"
        << (thread < 0 ? "process_name" : "thread_name") << R"(","pid":)"
        << rank;
    if (thread >= 0)
      out << ",\"tid\":" << thread;
    out << R"(,"args":{"name":)" << Json(name).dump() << "}}";
  }

  void writeRun(int32_t rank, const TableInfo &table, const TracedRun &run,
                int64_t origin) {
    writeEvent(concat(table.name, ' ', run.number), "run", rank, runThread,
               run.begin - origin, run.end - run.begin);
    out << R"("table":)" << Json(table.name).dump() << R"(,"run":)"
        << run.number << "}}";
  }

  void writeCalls(int32_t rank, const TableInfo &table, const TracedRun &run,
                  const std::vector<PreparedEntry> &entries, int64_t origin) {
    std::vector<int64_t> totals(entries.size());
    for (const TraceEvent &event : run.events)
      if (event.place.entry >= 0 && size_t(event.place.entry) < totals.size())
        totals[size_t(event.place.entry)] = std::max(
            totals[size_t(event.place.entry)], int64_t(event.place.call) + 1);
    for (const TraceEvent &event : run.events)
      if (event.place.entry >= 0 && size_t(event.place.entry) < entries.size())
        writeCall(rank, table, run, entries[size_t(event.place.entry)], event,
                  totals[size_t(event.place.entry)], origin);
  }

private:
  void beginEvent() {
    out << separator;
    separator = ",\n";
  }

  /// Writes an event up to the open object of its arguments.
  void writeEvent(const std::string &name, std::string_view category,
                  int32_t rank, int32_t thread, int64_t begin,
                  int64_t duration) {
    beginEvent();
    out << R"({"ph":"X","name":)" << Json(name).dump() << R"(,"cat":")"
        << category << R"(","pid":)" << rank << ",\"tid\":" << thread
        << ",\"ts\":" << double(begin) * 1e-3
        << ",\"dur\":" << double(duration) * 1e-3 << R"(,"args":{)";
  }

  /// Returns true if an event may be the call that the table lists.
  static bool isCall(const TraceEvent &event, const Json &item) {
    std::string_view operation = event.operation;
    return operation == "launch" || item.value("call", Json()) == operation;
  }

  void writeCall(int32_t rank, const TableInfo &table, const TracedRun &run,
                 const PreparedEntry &entry, const TraceEvent &event,
                 int64_t total, int64_t origin) {
    const Json *item = entry.program ? names.find(entry.program->info->name,
                                                  event.place.call, total)
                                     : nullptr;
    if (item && !isCall(event, *item))
      item = nullptr;
    Json known = item ? *item : Json::object();
    std::string name = joinOperators(known);
    writeEvent(name.empty() ? event.operation : name,
               event.kind == WorkKind::Collective ? "communication" : "compute",
               rank, event.stream, event.begin - origin,
               event.end - event.begin);
    if (!known.contains("call"))
      known["call"] = event.operation;
    known["work"] = std::string(runtime::name(event.kind));
    known["table"] = table.name;
    known["run"] = run.number;
    if (entry.program) {
      known["program"] = entry.program->info->name;
      if (item)
        known["index"] = names.getIndex(item);
      known["micro_batch"] = entry.microBatch;
    }
    std::string text = known.dump();
    out << std::string_view(text).substr(1) << '}';
  }

  const SessionState &state;
  std::ostream &out;
  CallNames names;
  const char *separator = "";
};
} // namespace

Status Trace::write(const SessionState &state,
                    const std::filesystem::path &file) const {
  std::ofstream out(file);
  int64_t origin = INT64_MAX;
  for (const auto &device : runs)
    for (const auto &table : device)
      for (const TracedRun &run : table)
        if (run.number >= 0)
          origin = std::min(origin, run.begin);
  Writer writer(state, out);
  writer.begin();
  for (size_t device = 0; device < runs.size(); ++device) {
    const DeviceState &rank = state.devices[device];
    int32_t number = rank.device->rank;
    writer.writeName(number, -1, concat("rank ", number));
    writer.writeName(number, runThread, "runs");
    std::vector<bool> streams;
    for (size_t table = 0; table < runs[device].size(); ++table) {
      std::vector<const TracedRun *> kept;
      for (const TracedRun &run : runs[device][table])
        if (run.number >= 0)
          kept.push_back(&run);
      std::ranges::sort(kept, {}, &TracedRun::number);
      for (const TracedRun *run : kept) {
        for (const TraceEvent &event : run->events) {
          streams.resize(std::max(streams.size(), size_t(event.stream) + 1));
          streams[size_t(event.stream)] = true;
        }
        const TableInfo &info = *state.tables[table].info;
        writer.writeRun(number, info, *run, origin);
        writer.writeCalls(number, info, *run, rank.entries[table], origin);
      }
    }
    for (size_t stream = 0; stream < streams.size(); ++stream)
      if (streams[stream])
        writer.writeName(number, int32_t(stream),
                         concat("stream ", stream, stream ? "" : ": compute"));
  }
  writer.end();
  out.close();
  if (!out)
    return errorOf("cannot write the trace to ", file.string());
  return Status::success();
}

} // namespace heddle::runtime
