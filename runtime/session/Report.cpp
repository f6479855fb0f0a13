//===- Report.cpp - Memory, replicas and the trace of a session -----------===//

#include "session/Report.h"

#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iomanip>

namespace heddle::runtime {

std::vector<DeviceMemory> reportMemory(const SessionState &state) {
  std::vector<DeviceMemory> reports;
  for (const DeviceState &device : state.devices) {
    DeviceMemory &report = reports.emplace_back();
    for (size_t i = 0; i < state.variables.size(); ++i) {
      size_t bytes = alignBuffer(state.variables[i].layout.localBytes());
      switch (state.manifest.variables[i].role) {
      case VariableRole::Parameter:
        report.parameters += bytes;
        break;
      case VariableRole::OptimizerState:
        report.optimizerState += bytes;
        break;
      case VariableRole::Gradient:
      case VariableRole::Loss:
        report.gradients += bytes;
        break;
      case VariableRole::Counter:
        report.counters += bytes;
        break;
      }
    }
    for (const LoadedProgram &program : state.programs) {
      report.arena = std::max(report.arena, size_t(program.info->arenaBytes));
      for (auto *list : {&program.arguments, &program.results})
        for (const PlacedTensor &tensor : *list)
          report.argumentsAndResults += alignBuffer(tensor.layout.localBytes());
    }
    report.scratch = device.device->scratchBytes();
  }
  return reports;
}

Status checkReplicas(const SessionState &state) {
  for (const PlacedTensor &tensor : state.variables) {
    const Layout &layout = tensor.layout;
    size_t bytes = layout.elementBytes();
    for (int64_t block = 0; block < layout.numBlocks(); ++block) {
      const std::vector<int32_t> &holders = layout.holders(block);
      for (int32_t other : holders)
        for (size_t at = 0; at < layout.localBytes(); ++at)
          if (tensor.buffers[size_t(other)][at] !=
              tensor.buffers[size_t(holders.front())][at])
            return errorOf(tensor.info->name, ": devices ", holders.front(),
                           " and ", other, " hold different replicas, from ",
                           "element ", at / bytes, " of their block");
    }
    std::vector<std::vector<bool>> inside(
        size_t(layout.numBlocks()),
        std::vector<bool>(size_t(layout.localElements())));
    layout.forEachRun(
        0, layout.globalElements(),
        [&](int64_t block, int64_t offset, int64_t, int64_t length) {
          for (int64_t i = 0; i < length; ++i)
            inside[size_t(block)][size_t(offset + i)] = true;
        });
    for (int64_t block = 0; block < layout.numBlocks(); ++block) {
      int32_t device = layout.holders(block).front();
      for (int64_t i = 0; i < layout.localElements(); ++i) {
        if (inside[size_t(block)][size_t(i)])
          continue;
        for (size_t at = 0; at < bytes; ++at)
          if (tensor.buffers[size_t(device)][size_t(i) * bytes + at] != 0)
            return errorOf(tensor.info->name, ": expected padding of device ",
                           device, " to be zero, got a value at element ", i,
                           " of its block");
      }
    }
  }
  return Status::success();
}

Status startTrace(SessionState &state, size_t maxEvents) {
  for (DeviceState &device : state.devices) {
    device.device->trace.clear();
    device.device->trace.reserve(maxEvents);
    device.device->tracing = true;
  }
  return Status::success();
}

/// Escapes a name for JSON. Proper symbols need no escapes, but a damaged file
/// may have others.
static std::string escaped(const char *text) {
  std::string result;
  for (; *text; ++text)
    if (*text == '"' || *text == '\\')
      result += concat('\\', *text);
    else if (uint8_t(*text) >= 0x20)
      result += *text;
  return result;
}

Status writeTrace(SessionState &state, const std::filesystem::path &file) {
  std::ofstream out(file);
  out << "{\"traceEvents\":[\n";
  int64_t origin = INT64_MAX;
  for (const DeviceState &device : state.devices)
    for (const TraceEvent &event : device.device->trace)
      origin = std::min(origin, event.begin);
  const char *separator = "";
  out << std::fixed << std::setprecision(3);
  for (DeviceState &state : state.devices) {
    heddle_rt_device &device = *state.device;
    device.tracing = false;
    out << separator << R"({"ph":"M","name":"process_name","pid":)"
        << device.rank << R"(,"args":{"name":"device )" << device.rank
        << "\"}}";
    separator = ",\n";
    for (const TraceEvent &event : device.trace) {
      Dl_info info;
      const char *label = event.operation;
      if (event.symbol && dladdr(event.symbol, &info) && info.dli_sname &&
          info.dli_saddr == event.symbol)
        label = info.dli_sname;
      out << separator << R"({"ph":"X","name":")" << escaped(label)
          << R"(","cat":")" << name(event.kind) << R"(","pid":)" << device.rank
          << R"(,"tid":)" << event.stream
          << ",\"ts\":" << double(event.begin - origin) * 1e-3
          << ",\"dur\":" << double(event.end - event.begin) * 1e-3 << "}";
    }
    device.trace.clear();
  }
  out << "\n]}\n";
  out.close();
  if (!out)
    return errorOf("cannot write the trace to ", file.string());
  return Status::success();
}

} // namespace heddle::runtime
