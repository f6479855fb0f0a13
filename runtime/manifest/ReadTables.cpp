//===- ReadTables.cpp - Tables in a manifest ------------------------------===//

#include "manifest/ManifestReader.h"

#include "heddle/Support/JsonText.h"

#include <algorithm>

namespace heddle::runtime {

/// A file that asks for more micro-batches than this is damaged.
static constexpr int64_t maxMicroBatches = 1 << 20;

TableOperand ManifestReader::operand(const Json &value, const std::string &path,
                                     const TableInfo &table) {
  using Kind = TableOperand::Kind;
  if (value == "micro_batch")
    return {Kind::MicroBatch, 0};
  if (value.is_object() && value.size() == 1)
    for (auto [key, kind, count] :
         {std::tuple{"input", Kind::Input, table.inputs.size()},
          std::tuple{"output", Kind::Output, table.outputs.size()},
          std::tuple{"slot", Kind::Slot, table.slots.size()}})
      if (value.contains(key)) {
        auto index = size_t(integer(value, path, key, 0));
        if (status.ok() && index >= count)
          fail(join(path, key), concat("an index below ", count),
               concat(index));
        return {kind, index};
      }
  fail(path,
       "{\"input\": N}, {\"output\": N}, {\"slot\": N} or \"micro_batch\"",
       showJson(value));
  return {};
}

void ManifestReader::call(const Json &object, const std::string &path,
                          const TableInfo &table, TableEntry &entry) {
  std::string name = string(object, path, "call");
  std::optional<size_t> found = manifest.findProgram(name);
  if (!found)
    fail(join(path, "call"), "the name of a program", concat("\"", name, "\""));
  entry.program = found.value_or(0);
  if (member(object, path, "micro_batch", false))
    entry.microBatch = integer(object, path, "micro_batch", 0);
  if (status.ok() && entry.microBatch >= table.microBatches)
    fail(join(path, "micro_batch"), concat("one below ", table.microBatches),
         concat(entry.microBatch));
  for (auto [key, operands] : {std::pair{"arguments", &entry.arguments},
                               std::pair{"results", &entry.results}})
    each(object, path, key, [&](const Json &value, const std::string &at) {
      operands->push_back(operand(value, at, table));
    });
}

void ManifestReader::transfer(const Json &object, const std::string &path,
                              const TableInfo &table, TableEntry &entry) {
  const char *key = entry.kind == TableEntry::Kind::Send ? "send" : "receive";
  if (const Json *value = member(object, path, key)) {
    TableOperand memory = operand(*value, join(path, key), table);
    if (memory.kind != TableOperand::Kind::Slot)
      fail(join(path, key), "{\"slot\": N}", showJson(*value));
    entry.slot = memory.index;
  }
  auto number = [&](const char *key, int64_t end) {
    int64_t value = integer(object, path, key, 0);
    if (status.ok() && value >= end)
      fail(join(path, key), concat("a number below ", end), concat(value));
    return int32_t(std::min(value, end));
  };
  entry.group = number("group", int64_t(manifest.groups.size()));
  entry.peer = number("peer", manifest.numDevices());
  entry.stream = number("stream", maxStreams);
}

TableEntry ManifestReader::entry(const Json &object, const std::string &path,
                                 const TableInfo &table) {
  TableEntry entry;
  if (member(object, path, "call", false)) {
    call(object, path, table, entry);
  } else {
    bool isSend = member(object, path, "send", false);
    if (!isSend && !member(object, path, "receive", false)) {
      fail(path, "a call, a send or a receive", "none of them");
      return entry;
    }
    entry.kind = isSend ? TableEntry::Kind::Send : TableEntry::Kind::Receive;
    transfer(object, path, table, entry);
  }
  each(object, path, "after", [&](const Json &value, const std::string &at) {
    entry.after.push_back(size_t(toInteger(value, at, 0)));
  });
  return entry;
}

TableList ManifestReader::list(const Json &object, const std::string &path,
                               const TableInfo &table) {
  TableList list;
  list.ranks = ranks(object, path);
  eachObject(object, path, "entries",
             [&](const Json &element, const std::string &at) {
               list.entries.push_back(entry(element, at, table));
             });
  return list;
}

TableInfo ManifestReader::table(const Json &object, const std::string &path) {
  TableInfo table;
  table.name = string(object, path, "name");
  if (member(object, path, "role", false))
    table.role = choice(object, path, "role", tableRoles, parseTableRole);
  table.microBatches = integer(object, path, "micro_batches", 1);
  if (table.microBatches > maxMicroBatches)
    fail(join(path, "micro_batches"), concat("at most ", maxMicroBatches),
         concat(table.microBatches));
  if (member(object, path, "barrier", false)) {
    std::string barrier = string(object, path, "barrier");
    if (barrier != "run" && barrier != "none")
      fail(join(path, "barrier"), "run or none", concat("\"", barrier, "\""));
    table.hasBarrier = barrier != "none";
  }
  eachObject(object, path, "inputs",
             [&](const Json &element, const std::string &at) {
               port(element, at, table.inputs.emplace_back());
             });
  eachObject(
      object, path, "outputs", [&](const Json &element, const std::string &at) {
        TableOutput &output = table.outputs.emplace_back();
        port(element, at, output);
        std::string of = string(element, at, "of");
        if (of != "step" && of != "micro_batch")
          fail(join(at, "of"), "step or micro_batch", concat("\"", of, "\""));
        output.perMicroBatch = of == "micro_batch";
      });
  eachObject(object, path, "slots",
             [&](const Json &element, const std::string &at) {
               SlotInfo &slot = table.slots.emplace_back();
               slot.bytes = integer(element, at, "bytes", 0);
               if (member(element, at, "name", false))
                 slot.name = string(element, at, "name");
             });
  eachObject(object, path, "lists",
             [&](const Json &element, const std::string &at) {
               table.lists.push_back(list(element, at, table));
             });
  return table;
}

void ManifestReader::readTables(const Json &root) {
  eachObject(root, "", "tables",
             [&](const Json &object, const std::string &at) {
               manifest.tables.push_back(table(object, at));
             });
  checkUnique(manifest.tables, "tables");
  for (size_t i = 0; i < manifest.tables.size(); ++i)
    if (std::optional<TableRole> role = manifest.tables[i].role;
        role && manifest.findTable(*role) != i)
      fail(concat("tables[", i, "].role"), "each role once",
           concat("\"", name(*role), "\" again"));
}

} // namespace heddle::runtime
