//===- ChromeTrace.cpp - Simulations as traces ----------------------------===//

#include "heddle/Simulate/CallNumbers.h"
#include "heddle/Simulate/Report.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace heddle;
namespace json = llvm::json;

static double microseconds(double seconds) { return seconds * 1e6; }

/// Names a process or thread. The number orders it among the others.
static void writeName(json::OStream &out, StringRef kind, unsigned process,
                      int32_t thread, StringRef name) {
  out.object([&] {
    out.attribute("ph", "M");
    out.attribute("name", kind);
    out.attribute("pid", process);
    if (thread >= 0)
      out.attribute("tid", thread);
    out.attributeObject("args", [&] { out.attribute("name", name); });
  });
}

static void writeCall(json::OStream &out, const SimulatedCall &call,
                      const ProgramCall &entry, CallWork &works,
                      const CallNumbers &numbers) {
  rt::DeviceCallOpInterface op = call.op;
  out.attribute("ph", "X");
  out.attribute("name", getOperatorNames(op));
  out.attribute("cat", call.communicates ? "communication" : "compute");
  out.attribute("pid", call.list);
  out.attribute("tid", op.getStream());
  out.attribute("ts", microseconds(call.begun));
  out.attribute("dur", microseconds(call.end - call.begun));
  out.attributeObject("args", [&] {
    out.attribute("call", getCallKind(op));
    out.attributeArray("operators", [&] {
      for (StringAttr name : op.getServes().getNames())
        out.value(name.getValue());
    });
    out.attribute("kind", stringifyDataKind(op.getServes().getKind()));
    out.attribute("work", rt::stringifyWorkKind(op.getWorkKind()));
    if (!entry.transfer) {
      CallNumber number = numbers.get(op);
      out.attribute("program", number.program);
      out.attribute("index", number.index);
    }
    if (entry.repeat == 1)
      out.attribute("micro_batch", entry.microBatch);
    if (call.repeat > 1)
      out.attribute("repeat", call.repeat);
    if (call.communicates) {
      out.attribute("axes", getAxisNames(op));
      out.attribute("bytes", call.bytes);
      out.attribute("hidden_us", microseconds(call.hidden));
      out.attribute("exposed_us", microseconds(call.exposed));
      if (call.waitedFor >= 0)
        out.attribute("waits_for", call.waitedFor);
      if (call.waitedBy >= 0)
        out.attribute("awaited_by", call.waitedBy);
      return;
    }
    Work work = works.getWork(op);
    out.attribute("flops", work.flops);
    out.attribute("bytes", work.bytesRead + work.bytesWritten);
  });
}

void heddle::writeChromeTrace(llvm::raw_ostream &stream,
                              const Simulation &simulation,
                              const Cluster &cluster, ModuleOp module) {
  CallWork works(module);
  CallNumbers numbers(module);
  json::OStream out(stream);
  out.object([&] {
    out.attribute("displayTimeUnit", "ms");
    out.attributeObject("heddle", [&] {
      out.attribute("version", 1);
      out.attribute("source", "simulation");
      out.attribute("devices", simulation.devices);
      out.attribute("cluster", simulation.cluster);
      out.attributeObject("summary",
                          [&] { writeSummary(out, simulation, cluster); });
    });
    out.attributeArray("traceEvents", [&] {
      for (auto [i, list] : llvm::enumerate(simulation.lists))
        writeName(out, "process_name", i, -1, getRankNames(list));
      for (const StreamTimes &times : simulation.streams)
        writeName(out, "thread_name", times.list, times.stream,
                  times.stream == kComputeStream
                      ? "stream 0: compute"
                      : "stream " + std::to_string(times.stream));
      for (const SimulatedCall &call : simulation.calls)
        out.object([&] {
          writeCall(out, call, simulation.lists[call.list].calls[call.entry],
                    works, numbers);
        });
      for (auto [list, memory] : llvm::enumerate(simulation.memories))
        for (auto [time, bytes] : memory.curve)
          out.object([&, list = list, time = time, bytes = bytes] {
            out.attribute("ph", "C");
            out.attribute("name", "memory");
            out.attribute("pid", list);
            out.attribute("ts", microseconds(time));
            out.attributeObject("args", [&] { out.attribute("bytes", bytes); });
          });
    });
  });
  stream << '\n';
}
