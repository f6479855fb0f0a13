//===- Report.cpp - Memory and replicas of a session ----------------------===//

#include "session/Report.h"
#include "heddle_rt/checksum.h"
#include "support/Message.h"

#include <algorithm>
#include <cstring>

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
      case VariableRole::Buffer:
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
      case VariableRole::Setting:
        report.counters += bytes;
        break;
      }
    }
    for (const ProgramInfo &program : state.manifest.programs)
      if (state.manifest.rankSets[program.ranks].contains(device.coordinates))
        report.arena = std::max(report.arena, size_t(program.arenaBytes));
    report.argumentsAndResults = device.borderBytes;
    report.scratch =
        device.device->scratchBytes() + size_t(state.stagingBytes());
  }
  return reports;
}

/// Compares the blocks that several processes hold, by their checksums. The
/// blocks of one process are equal.
static Status checkAmongProcesses(const SessionState &state) {
  struct Entry {
    uint64_t checksum;
    int64_t rank; ///< of the process that holds the block; -1: none
  };
  std::vector<Entry> mine;
  std::vector<std::byte> bytes;
  for (const PlacedTensor &tensor : state.variables) {
    bytes.resize(tensor.layout.localBytes());
    for (int64_t block = 0; block < tensor.layout.numBlocks(); ++block) {
      int32_t rank = tensor.localHolder(block);
      if (rank >= 0)
        HEDDLE_RT_RETURN_IF_ERROR(state.deviceOf(rank).copyToHost(
            bytes.data(), tensor.buffers[size_t(rank)], bytes.size()));
      mine.push_back({rank >= 0 ? checksumOf(bytes) : 0, rank});
    }
  }
  auto all = state.options.job->allGather(std::as_bytes(std::span(mine)));
  HEDDLE_RT_RETURN_IF_ERROR(all.status());
  size_t number = 0;
  for (const PlacedTensor &tensor : state.variables)
    for (int64_t block = 0; block < tensor.layout.numBlocks();
         ++block, ++number) {
      Entry known{0, -1};
      for (const std::vector<std::byte> &each : *all) {
        Entry entry;
        std::memcpy(&entry, each.data() + number * sizeof entry, sizeof entry);
        if (entry.rank >= 0 && known.rank >= 0 &&
            entry.checksum != known.checksum)
          return errorOf(tensor.info->name, ": devices ", known.rank, " and ",
                         entry.rank, " hold different replicas of a block");
        if (entry.rank >= 0)
          known = entry;
      }
    }
  return Status::success();
}

static Status checkLocalReplicas(const SessionState &state) {
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

Status checkReplicas(const SessionState &state) {
  HEDDLE_RT_RETURN_IF_ERROR(checkLocalReplicas(state));
  return state.options.job ? checkAmongProcesses(state) : Status::success();
}

} // namespace heddle::runtime
