//===- JsonReport.cpp - Simulations for programs --------------------------===//

#include "heddle/Simulate/Report.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace heddle;
namespace json = llvm::json;

void heddle::writeMemoryParts(json::OStream &out,
                              const DeviceMemoryPlan &plan) {
  for (const MemoryPart &part : getMemoryParts(plan))
    out.attribute(part.key, part.bytes);
  out.attribute("total", plan.total());
}

void heddle::writeStepTimes(json::OStream &out, StringRef cluster,
                            int64_t devices, double seconds, double exposed) {
  out.attribute("cluster", cluster);
  out.attribute("devices", devices);
  out.attribute("seconds", seconds);
  out.attribute("exposed", exposed);
}

static void writeNames(json::OStream &out, rt::DeviceCallOpInterface call) {
  out.attribute("call", getCallKind(call));
  out.attributeArray("operators", [&] {
    for (StringAttr name : call.getServes().getNames())
      out.value(name.getValue());
  });
}

static void writeCall(json::OStream &out, StringRef key,
                      const Simulation &simulation, CallIndex index) {
  if (index < 0)
    return;
  out.attributeObject(key,
                      [&] { writeNames(out, simulation.calls[index].op); });
}

static void writeCollective(json::OStream &out, const Simulation &simulation,
                            const SimulatedCall &call) {
  writeNames(out, call.op);
  out.attribute("axes", getAxisNames(call.op));
  out.attribute("list", call.list);
  out.attribute("stream", rt::DeviceCallOpInterface(call.op).getStream());
  out.attribute("repeat", call.repeat);
  out.attribute("bytes", call.bytes);
  out.attribute("start", call.start);
  out.attribute("begun", call.begun);
  out.attribute("end", call.end);
  out.attribute("hidden", call.hidden);
  out.attribute("exposed", call.exposed);
  writeCall(out, "waits_for", simulation, call.waitedFor);
  writeCall(out, "awaited_by", simulation, call.waitedBy);
}

static void writeMemory(json::OStream &out, const Simulation &simulation,
                        const MemoryUse &memory) {
  if (simulation.lists.size() > 1)
    out.attribute("list", memory.list);
  writeMemoryParts(out, memory.plan);
  out.attributeArray("parts", [&] {
    for (const MemoryPart &part : getMemoryParts(memory.plan))
      out.object([&] {
        out.attribute("name", part.name);
        out.attribute("bytes", part.bytes);
      });
  });
  out.attribute("capacity", memory.capacity);
  out.attribute("peak", memory.peak);
  out.attribute("peak_time", memory.peakTime);
  out.attributeArray("alive_at_peak", [&] {
    for (const LiveValue &value : memory.aliveAtPeak)
      out.object([&] {
        const SimulatedCall &writer = simulation.calls[value.writer];
        out.attribute("bytes", value.bytes);
        out.attribute(
            "kind",
            stringifyDataKind(
                rt::DeviceCallOpInterface(writer.op).getServes().getKind()));
        writeNames(out, writer.op);
      });
  });
}

static void writeStep(json::OStream &out, const Simulation &simulation,
                      const Cluster &cluster) {
  writeStepTimes(out, simulation.cluster, simulation.devices,
                 simulation.seconds, simulation.exposed);
  out.attributeObject("bounds", [&] {
    const StepBounds &bounds = simulation.bounds;
    out.attribute("seconds", bounds.get());
    out.attribute("compute", bounds.compute);
    if (bounds.criticalPath)
      out.attribute("critical_path", *bounds.criticalPath);
    out.attributeObject("links", [&] {
      for (auto [seconds, level] : llvm::zip(bounds.links, cluster.levels))
        out.attribute(level.name, seconds);
    });
  });
  out.attributeArray("streams", [&] {
    for (const StreamTimes &times : simulation.streams)
      out.object([&] {
        out.attribute("list", times.list);
        out.attribute("stream", times.stream);
        out.attribute("calls", times.calls);
        out.attribute("computing", times.computing);
        out.attribute("communicating", times.communicating);
      });
  });
  out.attributeArray("lists", [&] {
    for (const CallList &list : simulation.lists)
      out.value(getRankNames(list));
  });
  if (!simulation.mixed.empty())
    out.attributeArray("mixed_devices", [&] {
      for (const std::string &kinds : simulation.mixed)
        out.value(kinds);
    });
  out.attribute("bubble", simulation.getBubble());
  out.attributeArray("list_times", [&] {
    for (auto [list, times] : llvm::enumerate(simulation.times))
      out.object([&, list = list, &times = times] {
        out.attribute("computing", times.computing);
        out.attribute("exposed", times.exposed);
        out.attribute("bubble", simulation.getBubble(list));
        out.attribute("slots", simulation.memories[list].plan.slots);
        out.attribute("in_flight", simulation.memories[list].inFlight);
        out.attribute("for_weights", simulation.memories[list].forWeights);
        out.attribute("memory", simulation.memories[list].plan.total());
        out.attribute("capacity", simulation.memories[list].capacity);
        out.attribute("peak", simulation.memories[list].peak);
      });
  });
}

void heddle::writeSummary(json::OStream &out, const Simulation &simulation,
                          const Cluster &cluster) {
  writeStep(out, simulation, cluster);
  out.attributeObject("memory",
                      [&] { writeMemory(out, simulation, simulation.memory); });
}

void heddle::writeSimulationJson(llvm::raw_ostream &stream,
                                 const Simulation &simulation,
                                 const Cluster &cluster) {
  json::OStream out(stream, /*IndentSize=*/1);
  out.object([&] {
    writeStep(out, simulation, cluster);
    out.attributeArray("collectives", [&] {
      for (const SimulatedCall &call : simulation.calls)
        if (call.communicates)
          out.object([&] { writeCollective(out, simulation, call); });
    });
    out.attributeObject(
        "memory", [&] { writeMemory(out, simulation, simulation.memory); });
  });
  stream << '\n';
}
