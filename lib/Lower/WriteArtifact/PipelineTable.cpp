//===- PipelineTable.cpp - The table of a pipeline's entry point ----------===//
//
// Writes the entries of each device of a pipeline: calls in the order of the
// schedule, transfers of values that one device makes and another reads, the
// slots that hold these values, and the waits that slots need.
//
// Each value is received before the call that precedes its reader, so that it
// is under way while that call computes. This needs different streams for any
// two channels (from one device to another, of activations or of gradients)
// that share a device: on one stream, the receive of one channel would delay
// the send of another. If there are too few streams, each value is received
// right before its reader.
//
//===----------------------------------------------------------------------===//

#include "ListBuilder.h"
#include "dialects/Heddle/Streams.h"
#include "heddle/Stages/StageSchedule.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <map>
#include <set>
#include <tuple>

using namespace mlir;
using namespace heddle;

namespace {

/// The transfers of one kind from one device to another.
struct Channel {
  int64_t from = 0, to = 0;
  bool isForward = true;

  auto key() const { return std::tuple(from, to, isForward); }
  bool operator<(const Channel &other) const { return key() < other.key(); }
};

/// A call of a program for a micro-batch.
struct Call {
  const ProgramPorts *program;
  int64_t microBatch;
};

class PipelineTable {
public:
  PipelineTable(ModuleOp module, PipelineAttr pipeline,
                ArrayRef<ProgramPorts> programs, int32_t firstStream)
      : module(module), pipeline(pipeline), programs(programs),
        firstStream(firstStream) {}

  EntryTable build();

private:
  void choosePorts();
  void orderCalls();
  void findChannels();
  void assignStreams();
  void buildList(int64_t device);

  int64_t getDevice(const ProgramPorts &program) const;
  const ProgramPorts *find(StageWork work, int64_t stage) const;
  bool isSent(rt::PortAttr port) const {
    return consumers.contains(port.getName().getValue());
  }
  RanksAttr getRanks(const std::set<int64_t> &of);
  Channel getChannel(const ProgramPorts &source, int64_t to) const;

  ModuleOp module;
  PipelineAttr pipeline;
  ArrayRef<ProgramPorts> programs;
  int32_t firstStream;
  int64_t devices = 1;
  StageSchedule schedule; ///< of the step
  EntryTable table;
  std::map<StringRef, unsigned> inputs, outputs; ///< by name
  /// The programs that make and read a value, by its name.
  llvm::DenseMap<StringRef, const ProgramPorts *> producers;
  llvm::DenseMap<StringRef, int64_t> bytes; ///< of a value on a rank
  llvm::MapVector<StringRef, llvm::SetVector<const ProgramPorts *>> consumers;
  std::vector<std::vector<Call>> calls; ///< by device
  /// The values of each channel, in the order in which they are sent.
  std::map<Channel, std::vector<TableValue>> channels;
  std::map<Channel, int32_t> streams;
  bool mayReceiveEarly = true;
};

} // namespace

//===----------------------------------------------------------------------===//
// Ports
//===----------------------------------------------------------------------===//

int64_t PipelineTable::getDevice(const ProgramPorts &program) const {
  int64_t stage = program.part.getStage();
  return isOncePerStep(program.part.getWork()) ? stage
                                               : schedule.deviceOf[stage];
}

const ProgramPorts *PipelineTable::find(StageWork work, int64_t stage) const {
  for (const ProgramPorts &program : programs)
    if (program.part.getWork() == work && program.part.getStage() == stage)
      return &program;
  return nullptr;
}

RanksAttr PipelineTable::getRanks(const std::set<int64_t> &of) {
  if (int64_t(of.size()) == devices)
    return RanksAttr();
  MeshOp mesh = *module.getOps<MeshOp>().begin();
  SmallVector<int64_t> values(of.begin(), of.end());
  MLIRContext *context = module.getContext();
  return RanksAttr::get(
      context, FlatSymbolRefAttr::get(mesh),
      CoordinatesAttr::get(context, pipeline.getAxis(), values));
}

static bool isMicroBatch(rt::PortAttr port) {
  return port.getRole() && port.getRole().getRole() == PortRole::MicroBatch;
}

/// Finds the inputs and outputs of the table: the arguments that no part makes,
/// and the results that no part reads.
void PipelineTable::choosePorts() {
  for (const ProgramPorts &program : programs)
    for (auto port : program.outputs.getAsRange<rt::PortAttr>())
      if (!port.getRole()) {
        producers[port.getName().getValue()] = &program;
        bytes[port.getName().getValue()] =
            rt::getByteSize(rt::getLocalType(module, port));
      }
  std::map<StringRef, std::set<int64_t>> readBy, madeBy;
  std::map<StringRef, rt::PortAttr> ports;
  std::vector<StringRef> inputNames, outputNames;
  auto note = [&](std::map<StringRef, std::set<int64_t>> &by,
                  std::vector<StringRef> &names, rt::PortAttr port,
                  const ProgramPorts &program) {
    StringRef name = port.getName().getValue();
    if (!by.count(name))
      names.push_back(name);
    by[name].insert(getDevice(program));
    ports[name] = port;
  };
  for (const ProgramPorts &program : programs)
    for (auto port : program.inputs.getAsRange<rt::PortAttr>()) {
      if (isMicroBatch(port))
        continue;
      if (!port.getRole() && producers.contains(port.getName().getValue()))
        consumers[port.getName().getValue()].insert(&program);
      else
        note(readBy, inputNames, port, program);
    }
  auto add = [&](SmallVectorImpl<rt::PortAttr> &list,
                 std::map<StringRef, unsigned> &indices,
                 ArrayRef<StringRef> names,
                 std::map<StringRef, std::set<int64_t>> &by) {
    for (StringRef name : names) {
      rt::PortAttr port = ports[name];
      indices[name] = list.size();
      list.push_back(rt::PortAttr::get(module.getContext(), port.getName(),
                                       port.getType(), port.getSharding(),
                                       port.getRole(), getRanks(by[name])));
    }
  };
  add(table.inputs, inputs, inputNames, readBy);
  for (const ProgramPorts &program : programs)
    for (auto port : program.outputs.getAsRange<rt::PortAttr>())
      if (!isSent(port))
        note(madeBy, outputNames, port, program);
  add(table.outputs, outputs, outputNames, madeBy);
}

//===----------------------------------------------------------------------===//
// Calls and transfers
//===----------------------------------------------------------------------===//

/// Orders the calls of each device by the schedule. A table of one micro-batch
/// runs all stages forward, then backward.
void PipelineTable::orderCalls() {
  calls.resize(devices);
  auto add = [&](StageWork work, int64_t stage, int64_t microBatch) {
    if (const ProgramPorts *program = find(work, stage))
      calls[getDevice(*program)].push_back({program, microBatch});
  };
  if (table.microBatches == 1) {
    for (int64_t stage = 0; stage < pipeline.getStages(); ++stage)
      add(StageWork::Forward, stage, 0);
    for (int64_t stage = pipeline.getStages() - 1; stage >= 0; --stage)
      add(StageWork::Backward, stage, 0);
  } else {
    for (const auto &list : schedule.devices)
      for (const StageTask &task : list)
        add(task.work, task.stage, task.microBatch);
  }
  for (StageWork work :
       {StageWork::SendGradients, StageWork::Update, StageWork::Report})
    for (int64_t device = 0; device < devices; ++device)
      add(work, device, 0);
}

Channel PipelineTable::getChannel(const ProgramPorts &source,
                                  int64_t to) const {
  StageWork work = source.part.getWork();
  // Sums over devices go to a later device, as activations do.
  return {getDevice(source), to,
          work == StageWork::Update || work == StageWork::Report ||
              (work == StageWork::Forward &&
               source.part.getStage() + 1 < pipeline.getStages())};
}

/// Returns the devices other than the source's that read a value.
static std::set<int64_t>
getReaders(const llvm::SetVector<const ProgramPorts *> &programs,
           int64_t source,
           llvm::function_ref<int64_t(const ProgramPorts &)> getDevice) {
  std::set<int64_t> devices;
  for (const ProgramPorts *program : programs)
    if (int64_t device = getDevice(*program); device != source)
      devices.insert(device);
  return devices;
}

/// Finds the values that each channel sends. A value is sent right after the
/// call that makes it.
void PipelineTable::findChannels() {
  for (int64_t device = 0; device < devices; ++device)
    for (const Call &call : calls[device])
      for (auto port : call.program->outputs.getAsRange<rt::PortAttr>())
        if (isSent(port))
          for (int64_t to :
               getReaders(consumers[port.getName().getValue()], device,
                          [&](const ProgramPorts &p) { return getDevice(p); }))
            channels[getChannel(*call.program, to)].push_back(
                {port.getName().getValue(), call.microBatch});
}

void PipelineTable::assignStreams() {
  int32_t first = std::min(firstStream, kMaxStreams - 1);
  auto share = [](const Channel &a, const Channel &b) {
    return a.from == b.from || a.from == b.to || a.to == b.from || a.to == b.to;
  };
  for (const auto &[channel, values] : channels) {
    std::vector<int> users(kMaxStreams);
    for (auto [other, stream] : streams)
      users[stream] += share(channel, other);
    auto best = std::min_element(users.begin() + first, users.end());
    streams[channel] = int32_t(best - users.begin());
    mayReceiveEarly &= *best == 0;
  }
}

void PipelineTable::buildList(int64_t device) {
  ListBuilder list(table, device);
  auto getBytes = [&](TableValue value) { return bytes.lookup(value.first); };
  std::map<Channel, size_t> received; // numbers of values
  std::set<TableValue> present;       // values from other devices
  auto receive = [&](const Call &call) {
    for (auto port : call.program->inputs.getAsRange<rt::PortAttr>()) {
      if (port.getRole() || !producers.contains(port.getName().getValue()))
        continue;
      TableValue value(port.getName().getValue(), call.microBatch);
      const ProgramPorts &source = *producers[port.getName().getValue()];
      if (getDevice(source) == device || present.count(value))
        continue;
      // A channel keeps its order, so values that were sent earlier are
      // received first.
      Channel channel = getChannel(source, device);
      while (!present.count(value)) {
        TableValue next = channels[channel][received[channel]++];
        TableEntry entry;
        entry.kind = TableEntry::Kind::Receive;
        entry.value = next.first;
        entry.microBatch = next.second;
        entry.peer = channel.from;
        entry.stream = streams[channel];
        list.add(entry, {}, {{0, next}}, getBytes);
        present.insert(next);
      }
    }
  };
  for (auto [i, call] : llvm::enumerate(calls[device])) {
    receive(call);
    if (mayReceiveEarly && i + 1 < calls[device].size())
      receive(calls[device][i + 1]);
    TableEntry entry;
    entry.program = call.program->name;
    entry.microBatch = call.microBatch;
    std::vector<std::pair<unsigned, TableValue>> reads, writes;
    for (auto port : call.program->inputs.getAsRange<rt::PortAttr>()) {
      TablePlace place;
      if (isMicroBatch(port))
        place.kind = TablePlace::Kind::MicroBatch;
      else if (!port.getRole() && producers.contains(port.getName().getValue()))
        reads.push_back({unsigned(entry.arguments.size()),
                         {port.getName().getValue(), call.microBatch}});
      else
        place.index = inputs.at(port.getName().getValue());
      entry.arguments.push_back(place);
    }
    for (auto port : call.program->outputs.getAsRange<rt::PortAttr>()) {
      TablePlace place{TablePlace::Kind::Output, 0};
      if (isSent(port))
        writes.push_back({unsigned(entry.results.size()),
                          {port.getName().getValue(), call.microBatch}});
      else
        place.index = outputs.at(port.getName().getValue());
      entry.results.push_back(place);
    }
    list.add(entry, reads, writes, getBytes);
    for (auto [place, value] : writes)
      for (int64_t to :
           getReaders(consumers[value.first], device,
                      [&](const ProgramPorts &p) { return getDevice(p); })) {
        Channel channel = getChannel(*call.program, to);
        TableEntry send;
        send.kind = TableEntry::Kind::Send;
        send.value = value.first;
        send.microBatch = value.second;
        send.peer = to;
        send.stream = streams[channel];
        list.add(send, {{0, value}}, {}, getBytes);
      }
  }
  table.lists.push_back({getRanks({device}), list.finish()});
}

EntryTable PipelineTable::build() {
  MeshOp mesh = *module.getOps<MeshOp>().begin();
  devices = mesh.getMesh().getAxisSize(pipeline.getAxis());
  StringRef entry = programs.front().part.getEntry().getValue();
  table.name = entry.str();
  table.role = symbolizeProgramRole(entry);
  table.axis = pipeline.getAxis();
  auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
  if (table.role == ProgramRole::Step && count)
    table.microBatches = count.getInt();
  table.hasBarrier = table.role != ProgramRole::Step ||
                     !module->hasAttr(kNoStepBarrierAttrName);
  auto text = module->getAttrOfType<StringAttr>(kStageTableAttrName);
  // Cannot fail: heddle-cut-stages has already made this schedule.
  schedule = llvm::cantFail(getSchedule(pipeline, text ? text.getValue() : "",
                                        devices, count ? count.getInt() : 0));
  choosePorts();
  orderCalls();
  findChannels();
  assignStreams();
  for (int64_t device = 0; device < devices; ++device)
    buildList(device);
  return std::move(table);
}

EntryTable heddle::getPipelineTable(ModuleOp module, PipelineAttr pipeline,
                                    ArrayRef<ProgramPorts> programs,
                                    int32_t numProgramStreams) {
  return PipelineTable(module, pipeline, programs, numProgramStreams).build();
}
