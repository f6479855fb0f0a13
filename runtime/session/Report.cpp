//===- Report.cpp - Memory, replicas and the trace of a session -----------===//

#include "session/Report.h"
#include "support/Message.h"

#include <algorithm>
#include <dlfcn.h>
#include <fstream>
#include <iomanip>

namespace heddle::runtime {

std::vector<DeviceMemory> reportMemory(const SessionState &state) {
  std::vector<DeviceMemory> reports;
  for (const DeviceState &device : state.devices) {
    DeviceMemory &report = reports.emplace_back();
    for (size_t i = 0; i < state.variables.size(); ++i) {
      if (!device.variablePointers[i])
        continue;
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
    for (const ProgramInfo &program : state.manifest.programs)
      if (state.manifest.rankSets[program.ranks].contains(device.coordinates))
        report.arena = std::max(report.arena, size_t(program.arenaBytes));
    report.argumentsAndResults = device.borderBytes;
    report.scratch = device.device->scratchBytes();
  }
  return reports;
}

Status checkReplicas(const SessionState &state) {
  std::vector<uint8_t> first, other;
  auto read = [&](const PlacedTensor &tensor, int32_t device,
                  std::vector<uint8_t> &to) {
    to.resize(tensor.layout.localBytes());
    return state.deviceOf(device).copyToHost(
        to.data(), tensor.buffers[size_t(device)], to.size());
  };
  for (const PlacedTensor &tensor : state.variables) {
    const Layout &layout = tensor.layout;
    size_t bytes = layout.elementBytes();
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
      std::vector<int32_t> holders;
      for (int32_t rank : layout.holders(block))
        if (tensor.buffers[size_t(rank)])
          holders.push_back(rank);
      if (holders.empty())
        continue;
      HEDDLE_RT_RETURN_IF_ERROR(read(tensor, holders.front(), first));
      for (size_t holder = 1; holder < holders.size(); ++holder) {
        HEDDLE_RT_RETURN_IF_ERROR(read(tensor, holders[holder], other));
        auto differs = std::mismatch(first.begin(), first.end(), other.begin());
        if (differs.first != first.end())
          return errorOf(
              tensor.info->name, ": devices ", holders.front(), " and ",
              holders[holder], " hold different replicas, from element ",
              size_t(differs.first - first.begin()) / bytes, " of their block");
      }
      for (size_t at = 0; at < first.size(); ++at)
        if (first[at] != 0 && !inside[size_t(block)][at / bytes])
          return errorOf(tensor.info->name, ": expected padding of device ",
                         holders.front(),
                         " to be zero, got a value at element ", at / bytes,
                         " of its block");
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
