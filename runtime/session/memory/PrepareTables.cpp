//===- PrepareTables.cpp - Tables as the devices run them -----------------===//
//
// Resolves everything that an entry names to addresses, so that a run only
// issues calls. Entries of one stream need no events. An entry that another
// stream waits for records an event of its own; the numbers of these events
// follow those that programs use.
//
//===----------------------------------------------------------------------===//

#include "session/state/SessionState.h"

namespace heddle::runtime {

std::vector<PreparedEntry>
SessionState::prepareTable(size_t table, DeviceState &device, int64_t run) {
  const LoadedTable &loaded = tables[table];
  const TableInfo &info = *loaded.info;
  auto rank = size_t(device.device->rank);
  auto addressOf = [&](const TableOperand &operand, int64_t microBatch) {
    auto copy = size_t(microBatch);
    switch (operand.kind) {
    case TableOperand::Kind::Input: {
      const PlacedTensor &input = loaded.inputs[operand.index];
      return input.buffers[rank] +
             (size_t(run * info.microBatches) + copy) * input.copyBytes();
    }
    case TableOperand::Kind::Output: {
      const PlacedTensor &output = loaded.outputs[operand.index];
      return output.buffers[rank] +
             (size_t(run * loaded.copiesOf(operand.index)) +
              (info.outputs[operand.index].perMicroBatch ? copy : 0)) *
                 output.copyBytes();
    }
    case TableOperand::Kind::Slot:
      return device.slots[table][operand.index];
    case TableOperand::Kind::MicroBatch:
      break;
    }
    return device.microBatches + copy * bufferAlignment;
  };
  std::vector<PreparedEntry> entries;
  int32_t nextEvent = manifest.numProgramEvents();
  for (const TableList &list : info.lists) {
    if (!manifest.rankSets[list.ranks].contains(device.coordinates))
      continue;
    for (const TableEntry &entry : list.entries) {
      PreparedEntry &prepared = entries.emplace_back();
      prepared.stream = entry.stream;
      for (size_t other : entry.after) {
        PreparedEntry &awaited = entries[other];
        if (awaited.stream == prepared.stream)
          continue;
        if (awaited.event < 0)
          awaited.event = nextEvent++;
        prepared.waits.push_back(awaited.event);
      }
      if (entry.kind != TableEntry::Kind::Call) {
        bool isSend = entry.kind == TableEntry::Kind::Send;
        Collective &transfer = prepared.transfer;
        transfer.kind =
            isSend ? Collective::Kind::Send : Collective::Kind::Recv;
        transfer.group = entry.group;
        transfer.peer = entry.peer;
        transfer.type = HEDDLE_RT_I8;
        transfer.count = info.slots[entry.slot].bytes;
        uint8_t *slot = device.slots[table][entry.slot];
        if (isSend)
          transfer.in = slot;
        else
          transfer.out = slot;
        continue;
      }
      prepared.program = &programs[entry.program];
      prepared.microBatch = entry.microBatch;
      for (const TableOperand &operand : entry.arguments)
        prepared.arguments.push_back(addressOf(operand, entry.microBatch));
      for (const TableOperand &operand : entry.results)
        prepared.results.push_back(addressOf(operand, entry.microBatch));
    }
  }
  // The vectors no longer grow, so the addresses of their elements are final.
  for (PreparedEntry &entry : entries)
    entry.frame = {device.arena->data(), device.variablePointers.data(),
                   entry.arguments.data(), entry.results.data(),
                   device.coordinates.data()};
  return entries;
}

void SessionState::prepareTables() {
  for (DeviceState &device : devices)
    for (size_t table = 0; table < tables.size(); ++table) {
      device.entries.push_back(prepareTable(table, device, 0));
      std::vector<PreparedEntry> &second = device.secondEntries.emplace_back();
      if (tables[table].numRuns() == 2)
        second = prepareTable(table, device, 1);
    }
}

} // namespace heddle::runtime
