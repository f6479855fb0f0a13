//===- SessionState.h - State of a session and its devices ------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_SESSIONSTATE_H
#define HEDDLE_RT_SESSION_SESSIONSTATE_H

#include "communicators/Network.h"
#include "device/Backend.h"
#include "heddle_rt/session.h"
#include "session/state/Layout.h"
#include "session/state/RunSequence.h"
#include "session/state/Team.h"
#include "session/state/Trace.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace heddle::runtime {

/// A tensor's layout, and the address of each rank's block.
struct PlacedTensor {
  const TensorInfo *info;
  Layout layout;
  /// By rank. Null for a rank that has no part of the tensor, or is not of this
  /// process.
  std::vector<uint8_t *> buffers;

  /// Returns the distance between two copies of a table's tensor. There is a
  /// copy for each micro-batch, one after another. If the table has no barrier,
  /// there are as many again for a second run.
  size_t copyBytes() const { return alignBuffer(layout.localBytes()); }

  /// Returns the lowest rank of this process that holds a block; -1 if none
  /// does.
  int32_t localHolder(int64_t block) const {
    for (int32_t rank : layout.holders(block))
      if (buffers[size_t(rank)])
        return rank;
    return -1;
  }
};

struct LoadedProgram {
  const ProgramInfo *info;
  heddle_rt_program_fn function;
};

struct LoadedTable {
  const TableInfo *info;
  /// Returns the runs that may be under way at once.
  int64_t numRuns() const { return info->hasBarrier ? 1 : 2; }
  /// Returns the number of tensors that a run makes for an output.
  int64_t copiesOf(size_t output) const {
    return info->outputs[output].perMicroBatch ? info->microBatches : 1;
  }
  std::vector<PlacedTensor> inputs, outputs;
};

/// An entry of a table as one device runs it.
struct PreparedEntry {
  std::vector<int32_t> waits; ///< events that its stream waits for
  int32_t stream = 0;
  int32_t event = -1; ///< recorded after the entry; -1: none
  // A call.
  const LoadedProgram *program = nullptr; ///< null for a transfer
  int64_t microBatch = 0;
  heddle_rt_frame frame{};
  std::vector<uint8_t *> arguments, results; ///< of the frame
  // A transfer.
  Collective transfer;
};

/// One device's memory, and what it does in each table.
struct DeviceState {
  std::unique_ptr<heddle_rt_device> device;
  /// Memory; `borders` holds inputs, outputs and slots of tables.
  std::unique_ptr<Region> variables, arena, borders;
  std::vector<int64_t> coordinates;
  std::vector<uint8_t *> variablePointers; ///< null for those of other ranks
  /// By table.
  std::vector<std::vector<uint8_t *>> slots; ///< null for those of other ranks
  std::vector<std::vector<PreparedEntry>> entries;
  /// By table: the entries of every second run if the table has no barrier.
  std::vector<std::vector<PreparedEntry>> secondEntries;
  /// The times of the last two runs of a table without a barrier.
  DeviceTimes timesOfRuns[2];
  /// The numbers of micro-batches, i64, each aligned as a buffer. Null if no
  /// table needs them.
  uint8_t *microBatches = nullptr;
  size_t borderBytes = 0;
};

/// The state of a session. The devices' threads share it: see Team.
struct SessionState {
  ~SessionState();

  std::filesystem::path directory; ///< of the artifact
  Manifest manifest;
  SessionOptions options;
  const Backend *backend = nullptr;
  const CodeInfo *code = nullptr; ///< in the manifest, for that backend
  uint64_t seed = 0;
  uint64_t fingerprint = 0; ///< of the manifest and the code
  int cores = 1;
  std::shared_ptr<Network> network;           ///< to emulate; null: none
  std::shared_ptr<const CallTimes> callTimes; ///< see DeviceOptions
  void *library = nullptr;                    ///< handle from dlopen
  std::vector<PlacedTensor> variables;
  std::vector<LoadedProgram> programs;
  std::vector<LoadedTable> tables;
  std::deque<DeviceState> devices;   ///< of this process, at fixed addresses
  std::vector<int32_t> deviceOfRank; ///< index in `devices`; -1: not here
  Status broken;                     ///< if set, no device can be used
  std::unique_ptr<Trace> trace;      ///< of the last runs; null: none
  Team team;

  /// Loads the shared object and finds every program in it.
  Status openLibrary(const std::filesystem::path &directory);
  /// Decides which ranks are of this process.
  Status chooseRanks();
  /// Makes the devices, and assigns every tensor and slot its address on every
  /// device that has it. Touches no memory.
  Status place();
  /// Resolves the entries of all tables for every device.
  void prepareTables();
  /// Runs a job on all devices and returns the first error. The job's data must
  /// lie in this state, not on a stack, because a device that hangs may use it
  /// after the caller has returned.
  using Job = Status (*)(SessionState &state, DeviceState &device);
  Status runOnDevices(Job newJob) {
    HEDDLE_RT_RETURN_IF_ERROR(beginOnDevices(newJob));
    return awaitDevices();
  }
  /// The two halves of `runOnDevices`.
  Status beginOnDevices(Job newJob);
  Status awaitDevices();
  Status gatherError(bool allReturned);
  std::string describeCall(const DeviceState &device, CallPlace place) const;

  Status touchMemory();
  Status initializeVariables();
  Status runTable(size_t table);
  /// Runs a table without a barrier up to `count` times (RunSequence.cpp).
  /// Calls stage(run) before a run; it returns false if no run follows. Calls
  /// finish(run) when all devices have ended the run.
  Status runSequence(size_t table, int64_t count,
                     const std::function<Expected<bool>(int64_t run)> &stage,
                     const std::function<Status(int64_t run)> &finish);
  /// Runs a list of entries on a device, and waits for its streams.
  Status runEntries(DeviceState &rank, size_t table, int64_t run);
  /// The run whose times the host reads, if a sequence is under way.
  std::optional<int64_t> finishedRun;

  /// The device of a rank of this process.
  heddle_rt_device &deviceOf(int32_t rank) const {
    return *devices[size_t(deviceOfRank[size_t(rank)])].device;
  }

  /// Copies elements [first, first + count) between a global tensor in host
  /// memory and the devices' blocks, of one of its copies.
  Status scatter(const PlacedTensor &tensor, int64_t first, int64_t count,
                 ConstBytes from, int64_t copy = 0);
  Status gather(const PlacedTensor &tensor, int64_t first, int64_t count,
                Bytes to, int64_t copy = 0) const;

  /// Implement the functions of Session that have these names.
  std::vector<OwnedBlock> ownedBlocks() const;
  Status readBlock(const OwnedBlock &block, int64_t first, int64_t count,
                   Bytes to) const;
  bool holdsPart(size_t tensor, std::span<const int64_t> start,
                 std::span<const int64_t> shape) const;
  std::vector<std::pair<int64_t, int64_t>>
  localRows(const PlacedTensor &tensor) const;

  /// Returns the process of the job that has a rank.
  int32_t processOf(int32_t rank) const {
    return rank / int32_t(devices.size());
  }
  /// Returns the bytes in which each rank stages sums across processes; 0 if
  /// there is one process.
  int64_t stagingBytes() const;

private:
  Status gatherFromProcesses(const PlacedTensor &tensor, int64_t first,
                             int64_t count, Bytes to, int64_t copy) const;
  void assignBorders(DeviceState &device);
  std::vector<PreparedEntry> prepareTable(size_t table, DeviceState &device,
                                          int64_t run);

  Job job = nullptr;
  size_t currentTable = 0;
  RunSequence sequence;
};

/// Sets the elements of `tensor` that `device` holds to their initial values.
Status initializeBlock(const PlacedTensor &tensor, const VariableInfo &variable,
                       uint64_t seed, heddle_rt_device &device);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_SESSIONSTATE_H
