//===- table.h - What a run does, entry by entry ----------------*- C++ -*-===//
//
// A table is one entry point of an artifact: a training step, an evaluation, a
// program of another compiler. It lists, for each set of ranks, the calls of
// programs and the transfers between ranks, in the order in which each rank
// issues them. The compiler makes tables from schedules; the runtime knows no
// schedule.
//
// A call runs on stream 0 (its program may use more streams), a transfer on the
// stream that it names. Entries of one stream run in order. Between streams
// only `after` orders entries: neither a call's end nor a transfer's is a
// barrier. At the end of a table the host waits for all of a rank's streams. If
// the table has no barrier, that is all: the rank may begin the next run while
// others are still in this one.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_TABLE_H
#define HEDDLE_RT_TABLE_H

#include "heddle_rt/status.h"
#include "heddle_rt/tensors.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::runtime {

struct Manifest;

/// The memory of a program's argument or result in a call.
struct TableOperand {
  enum class Kind {
    Input,     ///< an input's part for the call's micro-batch
    Output,    ///< an output, or its part for the call's micro-batch
    Slot,      ///< a slot
    MicroBatch ///< the number of the call's micro-batch, an i64
  } kind = Kind::Input;
  size_t index = 0; ///< of the input, output or slot

  bool operator==(const TableOperand &) const = default;
};

/// A call of a program, or one end of a transfer between two ranks.
struct TableEntry {
  enum class Kind { Call, Send, Receive } kind = Kind::Call;
  int32_t stream = 0; ///< 0 for a call
  /// Earlier entries of the list whose ends the entry's stream waits for.
  std::vector<size_t> after;

  // A call.
  size_t program = 0;
  int64_t microBatch = 0;
  std::vector<TableOperand> arguments, results;

  // A transfer. The n-th send of a rank to a peer in a group on a stream
  // matches the n-th receive of the peer from this rank in the same group on
  // the same stream.
  size_t slot = 0;
  int32_t group = 0;
  int32_t peer = 0; ///< index of a member of the group
};

/// What each rank of a set does.
struct TableList {
  size_t ranks = 0; ///< index of a rank set
  std::vector<TableEntry> entries;
};

/// An output of a table: one tensor for a run, or one for each micro-batch.
struct TableOutput : PortInfo {
  bool perMicroBatch = false;
};

/// Memory of each rank in which entries leave values for later ones. A slot may
/// hold several values, one after another, all of the same size.
struct SlotInfo {
  std::string name;
  int64_t bytes = 0;
};

struct TableInfo {
  std::string name;
  std::optional<TableRole> role;
  int64_t microBatches = 1;
  /// Whether all ranks end a run before one of them begins the next.
  bool hasBarrier = true;
  std::vector<PortInfo> inputs; ///< one tensor for each micro-batch
  std::vector<TableOutput> outputs;
  std::vector<SlotInfo> slots;
  std::vector<TableList> lists; ///< of disjoint sets of ranks
};

/// Checks a table whose names have been resolved, for all ranks:
/// - lists are of disjoint sets of ranks, and a rank has the programs, inputs
///   and outputs that its list uses;
/// - arguments and results have the types and sizes of their operands;
/// - `after` points backward;
/// - a slot is written before it is read, and a write of a slot is ordered with
///   every other use of it;
/// - a call overwrites a slot that it reads only if its program allows that
///   (ProgramInfo::inPlace);
/// - every output is written exactly once (for each micro-batch);
/// - every send has a receive of the same size and every receive a send;
/// - no rank waits for ever for a transfer. A send does not wait for its
///   receive, and a call may keep later entries from being issued until it has
///   begun. Collectives inside of programs are not checked.
/// An error names the list and the entry.
Status verifyTable(const Manifest &manifest, const TableInfo &table);

} // namespace heddle::runtime

#endif // HEDDLE_RT_TABLE_H
