//===- VerifyTable.cpp - Checks a table for all ranks ---------------------===//

#include "communicators/Communicator.h"
#include "heddle_rt/manifest.h"
#include "support/Message.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace heddle::runtime {

namespace {

using Kind = TableEntry::Kind;

/// Orders the entries of one list by its streams and waits.
class EntryOrder {
public:
  explicit EntryOrder(const std::vector<TableEntry> &entries);

  /// Returns true if entry `first` has ended whenever entry `second`, which is
  /// issued later, begins.
  bool isBefore(size_t first, size_t second) const {
    return clocks[second][streams[first]] >= positions[first];
  }

private:
  std::vector<size_t> streams;    ///< by entry: an index of its stream
  std::vector<int64_t> positions; ///< by entry: 1, 2, ... on its stream
  /// By entry and stream: the position of the last entry that has ended when
  /// this one has.
  std::vector<std::vector<int64_t>> clocks;
};

class TableVerifier {
public:
  TableVerifier(const Manifest &manifest, const TableInfo &table);
  Status run();

private:
  Status assignLists();
  Status checkEntries(size_t list);
  Status checkCall(const TableEntry &entry) const;
  Status checkOperand(const PortInfo &port, const TableOperand &operand,
                      bool isResult) const;
  Status checkRanks(std::string_view what, std::string_view name,
                    size_t ranks) const;
  Status checkSlots(const std::vector<TableEntry> &entries) const;
  Status checkInPlace(const TableEntry &entry, size_t result) const;
  Status checkOutputs() const;
  Status checkTransfers();
  Status checkProgress() const;

  std::string at(size_t list, size_t entry) const {
    return concat("table ", table.name, ", list ", list, ", entry ", entry);
  }

  const Manifest &manifest;
  const TableInfo &table;
  std::vector<std::vector<int64_t>> coordinates; ///< by rank
  std::vector<int64_t> listOf;                   ///< by rank; -1: none
  size_t currentList = 0;

  /// A send or a receive of a rank.
  struct End {
    size_t entry;
    int64_t bytes;
  };
  /// Group, stream, sender, receiver.
  using Channel = std::tuple<int32_t, int32_t, int32_t, int32_t>;
  std::map<Channel, std::vector<End>> sends, receives;
  /// The place of a transfer among those of its channel, by rank and entry.
  std::map<std::pair<int32_t, size_t>, std::pair<Channel, size_t>> places;
};

} // namespace

EntryOrder::EntryOrder(const std::vector<TableEntry> &entries)
    : streams(entries.size()), positions(entries.size()) {
  std::map<int32_t, size_t> indices;
  for (size_t i = 0; i < entries.size(); ++i) {
    auto [found, isNew] =
        indices.try_emplace(entries[i].stream, indices.size());
    streams[i] = found->second;
  }
  std::vector<std::optional<size_t>> last(indices.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    std::optional<size_t> &previous = last[streams[i]];
    std::vector<int64_t> clock =
        previous ? clocks[*previous] : std::vector<int64_t>(indices.size());
    for (size_t other : entries[i].after)
      for (size_t stream = 0; stream < clock.size(); ++stream)
        clock[stream] = std::max(clock[stream], clocks[other][stream]);
    positions[i] = previous ? positions[*previous] + 1 : 1;
    clock[streams[i]] = positions[i];
    clocks.push_back(std::move(clock));
    previous = i;
  }
}

TableVerifier::TableVerifier(const Manifest &manifest, const TableInfo &table)
    : manifest(manifest), table(table),
      listOf(size_t(manifest.numDevices()), -1) {
  for (int64_t rank = 0; rank < manifest.numDevices(); ++rank)
    coordinates.push_back(coordinatesOf(manifest.mesh, int32_t(rank)));
}

Status TableVerifier::assignLists() {
  for (size_t list = 0; list < table.lists.size(); ++list) {
    const RankSet &set = manifest.rankSets[table.lists[list].ranks];
    for (size_t rank = 0; rank < coordinates.size(); ++rank) {
      if (!set.contains(coordinates[rank]))
        continue;
      if (listOf[rank] >= 0)
        return errorOf("table ", table.name,
                       ": expected one list for each rank, got lists ",
                       listOf[rank], " and ", list, " for rank ", rank);
      listOf[rank] = int64_t(list);
    }
  }
  return Status::success();
}

/// Returns an error unless all ranks of the current list are in a set.
Status TableVerifier::checkRanks(std::string_view what, std::string_view name,
                                 size_t ranks) const {
  if (ranks == 0)
    return Status::success();
  const RankSet &set = manifest.rankSets[ranks];
  for (size_t rank = 0; rank < coordinates.size(); ++rank)
    if (listOf[rank] == int64_t(currentList) &&
        !set.contains(coordinates[rank]))
      return errorOf("expected ", what, " ", name,
                     " on all ranks of the list, got none on rank ", rank);
  return Status::success();
}

Status TableVerifier::checkOperand(const PortInfo &port,
                                   const TableOperand &operand,
                                   bool isResult) const {
  using Of = TableOperand::Kind;
  std::string_view kind = isResult ? "result" : "argument";
  auto bound = [&](std::string_view what, std::string_view name,
                   const PortInfo &other) -> Status {
    if (other.type == port.type && other.shape == port.shape &&
        other.sharding == port.sharding)
      return checkRanks(what, name, other.ranks);
    return errorOf("expected ", what, " ", name,
                   " to have type, shape and "
                   "sharding of ",
                   kind, " ", port.name, ", got others");
  };
  switch (operand.kind) {
  case Of::Input:
    if (isResult)
      return errorOf("expected an output or a slot for result ", port.name,
                     ", got an input");
    return bound("input", table.inputs[operand.index].name,
                 table.inputs[operand.index]);
  case Of::Output:
    if (!isResult)
      return errorOf("expected an input or a slot for argument ", port.name,
                     ", got an output");
    return bound("output", table.outputs[operand.index].name,
                 table.outputs[operand.index]);
  case Of::Slot: {
    int64_t bytes = localBytes(port, manifest.mesh);
    if (table.slots[operand.index].bytes == bytes)
      return Status::success();
    return errorOf("expected slot ", operand.index, " to have the ", bytes,
                   " bytes of ", kind, " ", port.name, ", got ",
                   table.slots[operand.index].bytes);
  }
  case Of::MicroBatch:
    if (isResult || port.type != HEDDLE_RT_I64 || !port.shape.empty())
      return errorOf("expected the number of the micro-batch to be an i64 "
                     "argument without dimensions, got ",
                     kind, " ", port.name);
    return Status::success();
  }
  return Status::success();
}

Status TableVerifier::checkCall(const TableEntry &entry) const {
  const ProgramInfo &program = manifest.programs[entry.program];
  HEDDLE_RT_RETURN_IF_ERROR(checkRanks("program", program.name, program.ranks));
  for (bool isResult : {false, true}) {
    const auto &ports = isResult ? program.results : program.arguments;
    const auto &operands = isResult ? entry.results : entry.arguments;
    if (ports.size() != operands.size())
      return errorOf("expected ", ports.size(),
                     isResult ? " results" : " arguments", " of program ",
                     program.name, ", got ", operands.size());
    for (size_t i = 0; i < ports.size(); ++i)
      HEDDLE_RT_RETURN_IF_ERROR(checkOperand(ports[i], operands[i], isResult));
  }
  return Status::success();
}

Status TableVerifier::checkEntries(size_t list) {
  currentList = list;
  const std::vector<TableEntry> &entries = table.lists[list].entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    for (size_t other : entries[i].after)
      if (other >= i)
        return errorOf(at(list, i),
                       ": expected to wait for an earlier entry, "
                       "got entry ",
                       other);
    if (entries[i].kind == Kind::Call)
      HEDDLE_RT_RETURN_IF_ERROR(checkCall(entries[i]).in(at(list, i)));
  }
  return checkSlots(entries);
}

/// Checks that a call may write a result into a slot that it reads. Its program
/// must have read every argument there before it writes.
Status TableVerifier::checkInPlace(const TableEntry &entry,
                                   size_t result) const {
  const ProgramInfo &program = manifest.programs[entry.program];
  for (size_t i = 0; i < entry.arguments.size(); ++i)
    if (entry.arguments[i] == entry.results[result] &&
        !std::ranges::count(program.inPlace[result], i))
      return errorOf(
          "slot ", entry.results[result].index,
          " is read and overwritten: expected a program that allows "
          "it (in_place), but ",
          program.name, " may write result ", program.results[result].name,
          " before it has read argument ", program.arguments[i].name);
  return Status::success();
}

/// Checks that every value in a slot is written before it is read, and read
/// before it is overwritten.
Status TableVerifier::checkSlots(const std::vector<TableEntry> &entries) const {
  struct Value {
    std::optional<size_t> writer;
    std::vector<size_t> readers;
  };
  std::vector<Value> values(table.slots.size());
  EntryOrder order(entries);
  auto read = [&](size_t entry, size_t slot) -> Status {
    Value &value = values[slot];
    if (!value.writer)
      return errorOf("slot ", slot, " is read before anything is written");
    if (!order.isBefore(*value.writer, entry))
      return errorOf("slot ", slot, " is read, perhaps before entry ",
                     *value.writer, " has written it: expected a wait");
    value.readers.push_back(entry);
    return Status::success();
  };
  auto write = [&](size_t entry, size_t slot) -> Status {
    Value &value = values[slot];
    if (value.writer == entry)
      return errorOf("slot ", slot, " is written twice");
    for (size_t reader : value.readers)
      if (reader != entry && !order.isBefore(reader, entry))
        return errorOf("slot ", slot, " is overwritten, perhaps before entry ",
                       reader, " has read it: expected a wait");
    if (value.writer && !order.isBefore(*value.writer, entry))
      return errorOf("slot ", slot, " is overwritten, perhaps before entry ",
                     *value.writer, " has written it: expected a wait");
    value = {entry, {}};
    return Status::success();
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    const TableEntry &entry = entries[i];
    auto inEntry = [&](Status status) {
      return std::move(status).in(at(currentList, i));
    };
    if (entry.kind != Kind::Call) {
      HEDDLE_RT_RETURN_IF_ERROR(inEntry(entry.kind == Kind::Send
                                            ? read(i, entry.slot)
                                            : write(i, entry.slot)));
      continue;
    }
    for (const TableOperand &operand : entry.arguments)
      if (operand.kind == TableOperand::Kind::Slot)
        HEDDLE_RT_RETURN_IF_ERROR(inEntry(read(i, operand.index)));
    for (size_t result = 0; result < entry.results.size(); ++result)
      if (entry.results[result].kind == TableOperand::Kind::Slot) {
        HEDDLE_RT_RETURN_IF_ERROR(inEntry(checkInPlace(entry, result)));
        HEDDLE_RT_RETURN_IF_ERROR(
            inEntry(write(i, entry.results[result].index)));
      }
  }
  return Status::success();
}

/// Checks that every output is written once on every rank that has it.
Status TableVerifier::checkOutputs() const {
  for (size_t output = 0; output < table.outputs.size(); ++output) {
    const TableOutput &info = table.outputs[output];
    const RankSet &set = manifest.rankSets[info.ranks];
    std::vector<bool> checked(table.lists.size());
    for (size_t rank = 0; rank < coordinates.size(); ++rank) {
      if (!set.contains(coordinates[rank]))
        continue;
      if (listOf[rank] < 0)
        return errorOf("table ", table.name, ": expected a list for rank ",
                       rank, ", which has output ", info.name, ", got none");
      auto list = size_t(listOf[rank]);
      if (checked[list])
        continue;
      checked[list] = true;
      std::vector<int64_t> writes(
          size_t(info.perMicroBatch ? table.microBatches : 1));
      for (const TableEntry &entry : table.lists[list].entries)
        for (const TableOperand &operand : entry.results)
          if (operand == TableOperand{TableOperand::Kind::Output, output})
            ++writes[info.perMicroBatch ? size_t(entry.microBatch) : 0];
      for (size_t i = 0; i < writes.size(); ++i)
        if (writes[i] != 1)
          return errorOf("table ", table.name, ", list ", list,
                         ": expected output ", info.name, " to be written once",
                         info.perMicroBatch ? concat(" for micro-batch ", i)
                                            : "",
                         ", got ", writes[i], " times");
    }
  }
  return Status::success();
}

/// Checks that sends and receives match.
Status TableVerifier::checkTransfers() {
  for (size_t rank = 0; rank < coordinates.size(); ++rank) {
    if (listOf[rank] < 0)
      continue;
    auto list = size_t(listOf[rank]);
    const std::vector<TableEntry> &entries = table.lists[list].entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      const TableEntry &entry = entries[i];
      if (entry.kind == Kind::Call)
        continue;
      GroupView group = groupOf(
          manifest.mesh, manifest.groups[size_t(entry.group)], int32_t(rank));
      if (group.member < 0)
        return errorOf(at(list, i), ": expected members of group ", entry.group,
                       ", got rank ", rank);
      if (size_t(entry.peer) >= group.ranks.size() ||
          entry.peer == group.member)
        return errorOf(at(list, i), ": expected another of the ",
                       group.ranks.size(), " members of group ", entry.group,
                       " than ", group.member, ", got ", entry.peer);
      int32_t peer = group.ranks[size_t(entry.peer)];
      bool isSend = entry.kind == Kind::Send;
      Channel channel = {entry.group, entry.stream,
                         isSend ? int32_t(rank) : peer,
                         isSend ? peer : int32_t(rank)};
      std::vector<End> &ends = (isSend ? sends : receives)[channel];
      places[{int32_t(rank), i}] = {channel, ends.size()};
      ends.push_back({i, table.slots[entry.slot].bytes});
    }
  }
  for (auto [one, other] :
       {std::pair{&sends, &receives}, std::pair{&receives, &sends}})
    for (const auto &[channel, ends] : *one) {
      auto [group, stream, from, to] = channel;
      auto found = other->find(channel);
      size_t count = found == other->end() ? 0 : found->second.size();
      if (count != ends.size())
        return errorOf(
            "table ", table.name, ": expected as many sends of rank ", from,
            " to rank ", to, " in group ", group, " on stream ", stream,
            " as receives, got ", one == &sends ? ends.size() : count, " and ",
            one == &sends ? count : ends.size());
      for (size_t i = 0; i < count; ++i)
        if (ends[i].bytes != found->second[i].bytes)
          return errorOf(
              "table ", table.name, ": rank ", from, ", entry ", ends[i].entry,
              " sends ", ends[i].bytes, " bytes, but rank ", to, ", entry ",
              found->second[i].entry, " receives ", found->second[i].bytes);
    }
  return Status::success();
}

/// Checks that no rank waits for ever, by a simulation of all ranks. A send
/// does not wait for its receive. An entry waits for the calls before it in the
/// list, because a call that fills its stream's queue keeps the host from
/// issuing later entries. One thread issues all streams that have calls. So a
/// transfer that waits on one of these streams blocks all of them.
Status TableVerifier::checkProgress() const {
  auto entriesOf = [&](size_t rank) -> const std::vector<TableEntry> & {
    return table.lists[size_t(listOf[rank])].entries;
  };
  std::vector<std::vector<bool>> done(coordinates.size());
  for (size_t rank = 0; rank < coordinates.size(); ++rank)
    if (listOf[rank] >= 0)
      done[rank].resize(entriesOf(rank).size());
  std::vector<std::set<int32_t>> ofCalls(coordinates.size()); // streams
  for (size_t rank = 0; rank < coordinates.size(); ++rank)
    for (size_t i = 0; i < done[rank].size(); ++i)
      if (entriesOf(rank)[i].kind == Kind::Call)
        ofCalls[rank].insert(entriesOf(rank)[i].stream);
  // Returns the rank and the entry of the send that a receive waits for.
  auto sendOf = [&](size_t rank, size_t receive) {
    auto [channel, place] = places.at({int32_t(rank), receive});
    return std::pair(size_t(std::get<2>(channel)),
                     sends.at(channel)[place].entry);
  };
  // Runs each entry of a rank that waits for nothing. Returns true if any did.
  std::vector<size_t> begin(coordinates.size()); // entries before it have run
  auto advance = [&](size_t rank) {
    bool moved = false, callsDone = true;
    std::set<int32_t> blocked; // streams
    while (begin[rank] < done[rank].size() && done[rank][begin[rank]])
      ++begin[rank];
    for (size_t i = begin[rank]; i < done[rank].size() && callsDone; ++i) {
      if (done[rank][i])
        continue;
      const TableEntry &entry = entriesOf(rank)[i];
      bool mayRun = !blocked.contains(entry.stream);
      for (size_t other : entry.after)
        mayRun &= done[rank][other];
      if (entry.kind == Kind::Receive) {
        auto [peer, send] = sendOf(rank, i);
        mayRun &= done[peer][send];
      }
      if (mayRun)
        done[rank][i] = moved = true;
      else if (entry.kind == Kind::Call)
        callsDone = false;
      else if (ofCalls[rank].contains(entry.stream))
        blocked.insert(ofCalls[rank].begin(), ofCalls[rank].end());
      else
        blocked.insert(entry.stream);
    }
    return moved;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < coordinates.size(); ++rank)
      moved |= advance(rank);
  }
  // The first entry of a list that has not run is a receive: all that it could
  // wait for in its own list has run.
  for (size_t rank = 0; rank < coordinates.size(); ++rank)
    if (auto stuck = std::ranges::find(done[rank], false);
        stuck != done[rank].end()) {
      auto entry = size_t(stuck - done[rank].begin());
      auto [peer, send] = sendOf(rank, entry);
      return errorOf(at(size_t(listOf[rank]), entry), ": rank ", rank,
                     " waits for ever for the send of rank ", peer, ", entry ",
                     send, ", which never begins");
    }
  return Status::success();
}

Status TableVerifier::run() {
  HEDDLE_RT_RETURN_IF_ERROR(assignLists());
  for (size_t list = 0; list < table.lists.size(); ++list)
    HEDDLE_RT_RETURN_IF_ERROR(checkEntries(list));
  HEDDLE_RT_RETURN_IF_ERROR(checkOutputs());
  HEDDLE_RT_RETURN_IF_ERROR(checkTransfers());
  return places.empty() ? Status::success() : checkProgress();
}

Status verifyTable(const Manifest &manifest, const TableInfo &table) {
  return TableVerifier(manifest, table).run();
}

} // namespace heddle::runtime
