//===- PlaceMemory.cpp - Addresses of tensors and slots -------------------===//

#include "session/state/SessionState.h"
#include "support/Message.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <dlfcn.h>

namespace heddle::runtime {

Status SessionState::chooseRanks() {
  int64_t ranks = manifest.numDevices();
  std::vector<int32_t> &local = options.localRanks;
  if (options.job) {
    int64_t processes = options.job->processes(), count = ranks / processes;
    if (ranks % processes != 0)
      return errorOf("expected a number of processes that divides the model's ",
                     ranks, " ranks, got ", processes);
    options.job->setRanksPerProcess(count);
    local.clear();
    for (int64_t i = 0; i < count; ++i)
      local.push_back(int32_t(options.job->process() * count + i));
  }
  if (local.empty())
    for (int64_t rank = 0; rank < ranks; ++rank)
      local.push_back(int32_t(rank));
  std::ranges::sort(local);
  deviceOfRank.assign(size_t(ranks), -1);
  for (size_t i = 0; i < local.size(); ++i) {
    if (local[i] < 0 || local[i] >= ranks)
      return errorOf("expected local ranks below ", ranks, ", got ", local[i]);
    if (i > 0 && local[i] == local[i - 1])
      return errorOf("expected each local rank once, got ", local[i], " twice");
    deviceOfRank[size_t(local[i])] = int32_t(i);
  }
  if (options.job)
    return Status::success();
  for (const GroupInfo &group : manifest.groups)
    for (int32_t rank : local) {
      GroupView view = groupOf(manifest.mesh, group, rank);
      if (view.member >= 0)
        for (int32_t other : view.ranks)
          if (deviceOfRank[size_t(other)] < 0)
            return errorOf("rank ", rank,
                           " of this process communicates with "
                           "rank ",
                           other,
                           " of another: expected all ranks in one process, or "
                           "processes that have joined a job");
    }
  return Status::success();
}

namespace {

/// Gives out the addresses of one region of a device, from its start. With a
/// null start it only counts bytes.
class Addresses {
public:
  explicit Addresses(uint8_t *start) : start(start) {}

  uint8_t *take(size_t bytes) {
    uint8_t *address = start ? start + used : nullptr;
    used += alignBuffer(bytes);
    return address;
  }
  size_t bytes() const { return used; }

private:
  uint8_t *start;
  size_t used = 0;
};

} // namespace

/// Returns the list of a table that a device runs, or null.
static const TableList *findList(const Manifest &manifest,
                                 const TableInfo &table,
                                 const DeviceState &device) {
  for (const TableList &list : table.lists)
    if (manifest.rankSets[list.ranks].contains(device.coordinates))
      return &list;
  return nullptr;
}

/// Returns which slots of a table the entries of a list use.
static std::vector<bool> findSlots(const TableInfo &table,
                                   const TableList *list) {
  std::vector<bool> used(table.slots.size());
  if (!list)
    return used;
  for (const TableEntry &entry : list->entries) {
    if (entry.kind != TableEntry::Kind::Call)
      used[entry.slot] = true;
    for (auto *operands : {&entry.arguments, &entry.results})
      for (const TableOperand &operand : *operands)
        if (operand.kind == TableOperand::Kind::Slot)
          used[operand.index] = true;
  }
  return used;
}

static bool usesMicroBatchNumbers(const Manifest &manifest) {
  for (const TableInfo &table : manifest.tables)
    for (const TableList &list : table.lists)
      for (const TableEntry &entry : list.entries)
        for (const TableOperand &operand : entry.arguments)
          if (operand.kind == TableOperand::Kind::MicroBatch)
            return true;
  return false;
}

/// Assigns addresses in the device's region `borders`. Only counts the bytes if
/// the region is not allocated yet.
void SessionState::assignBorders(DeviceState &device) {
  Addresses next(device.borders ? device.borders->data() : nullptr);
  auto rank = size_t(device.device->rank);
  auto assign = [&](PlacedTensor &tensor, int64_t copies) {
    const RankSet &ranks = manifest.rankSets[tensor.info->ranks];
    if (ranks.contains(device.coordinates))
      tensor.buffers[rank] = next.take(size_t(copies) * tensor.copyBytes());
  };
  device.slots.clear();
  int64_t mostMicroBatches = 0;
  for (LoadedTable &table : tables) {
    const TableInfo &info = *table.info;
    mostMicroBatches = std::max(mostMicroBatches, info.microBatches);
    for (PlacedTensor &input : table.inputs)
      assign(input, table.numRuns() * info.microBatches);
    for (size_t i = 0; i < table.outputs.size(); ++i)
      assign(table.outputs[i], table.numRuns() * table.copiesOf(i));
    std::vector<bool> used = findSlots(info, findList(manifest, info, device));
    std::vector<uint8_t *> &slots = device.slots.emplace_back();
    for (size_t i = 0; i < used.size(); ++i)
      slots.push_back(used[i] ? next.take(size_t(info.slots[i].bytes))
                              : nullptr);
  }
  if (usesMicroBatchNumbers(manifest))
    device.microBatches = next.take(size_t(mostMicroBatches) * bufferAlignment);
  device.borderBytes = next.bytes();
}

/// Returns the most bytes of messages that a device has sent and nobody has
/// received. A backend uses the memory of a message again for messages of the
/// same size and channel.
static size_t messageBytes(const Manifest &manifest,
                           const DeviceState &device) {
  // Group, peer, stream, bytes.
  using Kind = std::tuple<int32_t, int32_t, int32_t, int64_t>;
  std::map<Kind, int64_t> most;
  for (const TableInfo &table : manifest.tables) {
    std::map<Kind, int64_t> counts;
    if (const TableList *list = findList(manifest, table, device))
      for (const TableEntry &entry : list->entries)
        if (entry.kind == TableEntry::Kind::Send)
          counts[{entry.group, entry.peer, entry.stream,
                  table.slots[entry.slot].bytes}] += table.hasBarrier ? 1 : 2;
    for (auto [kind, count] : counts)
      most[kind] = std::max(most[kind], count);
  }
  size_t bytes = 0;
  for (auto [kind, count] : most)
    bytes += size_t(count) * alignBuffer(size_t(std::get<3>(kind)));
  return bytes;
}

int64_t SessionState::stagingBytes() const {
  int64_t bytes = 0;
  if (options.job)
    for (int64_t ofStream : manifest.staging())
      bytes += ofStream;
  return bytes;
}

Status SessionState::place() {
  auto placed = [&](const TensorInfo &info) {
    return PlacedTensor{
        &info, Layout(info, manifest.mesh, manifest.rankSets[info.ranks]),
        std::vector<uint8_t *>(size_t(manifest.numDevices()))};
  };
  for (const VariableInfo &info : manifest.variables)
    variables.push_back(placed(info));
  for (const TableInfo &info : manifest.tables) {
    LoadedTable &table = tables.emplace_back();
    table.info = &info;
    for (const PortInfo &input : info.inputs)
      table.inputs.push_back(placed(input));
    for (const TableOutput &output : info.outputs)
      table.outputs.push_back(placed(output));
  }
  Expected<std::vector<std::unique_ptr<heddle_rt_device>>> made =
      backend->makeDevices({manifest.mesh, manifest.groups, options.localRanks,
                            options.job, manifest.staging(), cores,
                            manifest.numStreams(), *options.streamOrder,
                            options.collectiveTimeout, network, callTimes, code,
                            directory,
                            static_cast<const heddle_rt_attention_call *>(
                                dlsym(library, "heddle_attentions")),
                            static_cast<const heddle_rt_matmul_desc *const *>(
                                dlsym(library, "heddle_products"))});
  HEDDLE_RT_RETURN_IF_ERROR(made.status());
  struct Sizes {
    size_t variables = 0, arena = 0;
  };
  std::vector<Sizes> sizes;
  std::vector<MemoryPart> most; // the parts of the largest device
  for (size_t i = 0; i < options.localRanks.size(); ++i) {
    DeviceState &device = devices.emplace_back();
    device.device = std::move((*made)[i]);
    device.coordinates = coordinatesOf(manifest.mesh, device.device->rank);
    Sizes &size = sizes.emplace_back();
    for (const PlacedTensor &variable : variables)
      if (manifest.rankSets[variable.info->ranks].contains(device.coordinates))
        size.variables += variable.copyBytes();
    for (const ProgramInfo &program : manifest.programs)
      if (manifest.rankSets[program.ranks].contains(device.coordinates))
        size.arena = std::max(size.arena, size_t(program.arenaBytes));
    assignBorders(device);
    double messages = device.device->waitsInReceives()
                          ? double(messageBytes(manifest, device))
                          : 0;
    std::vector<MemoryPart> parts = device.device->workspaces();
    parts.insert(parts.begin(),
                 {"the plan", double(size.variables) + double(size.arena) +
                                  double(device.borderBytes) +
                                  double(stagingBytes()) + messages});
    if (totalBytes(parts) > totalBytes(most))
      most = std::move(parts);
  }
  if (!options.emulateCompute) // emulated devices do not touch their memory
    HEDDLE_RT_RETURN_IF_ERROR(
        backend->checkMemory(int64_t(devices.size()), most));
  for (size_t i = 0; i < devices.size(); ++i) {
    DeviceState &device = devices[i];
    for (auto [region, bytes] :
         {std::pair{&device.variables, sizes[i].variables},
          std::pair{&device.borders, device.borderBytes},
          std::pair{&device.arena, alignBuffer(sizes[i].arena)}}) {
      Expected<std::unique_ptr<Region>> memory = device.device->allocate(bytes);
      HEDDLE_RT_RETURN_IF_ERROR(memory.status());
      *region = std::move(*memory);
    }
    Addresses next(device.variables->data());
    for (PlacedTensor &variable : variables) {
      uint8_t *&buffer = variable.buffers[size_t(device.device->rank)];
      if (manifest.rankSets[variable.info->ranks].contains(device.coordinates))
        buffer = next.take(variable.layout.localBytes());
      device.variablePointers.push_back(buffer);
    }
    assignBorders(device);
  }
  prepareTables();
  return Status::success();
}

} // namespace heddle::runtime
