//===- ArtifactMemory.cpp - Memory of the devices of an artifact ----------===//

#include "ArtifactMemory.h"

#include <algorithm>
#include <map>

using namespace heddle;
using namespace heddle::tools;

using Coordinates = std::vector<int64_t>;

/// Returns the coordinates of a rank. The last axis of the mesh is the fastest.
static Coordinates coordinatesOf(const runtime::Manifest &manifest,
                                 int64_t rank) {
  Coordinates coordinates(manifest.mesh.size());
  for (size_t axis = coordinates.size(); axis-- > 0;) {
    coordinates[axis] = rank % manifest.mesh[axis].size;
    rank /= manifest.mesh[axis].size;
  }
  return coordinates;
}

/// Returns, for each slot of a table, whether a list uses it.
static std::vector<bool> slotsOf(const runtime::TableInfo &table,
                                 const runtime::TableList &list) {
  std::vector<bool> used(table.slots.size());
  for (const runtime::TableEntry &entry : list.entries) {
    if (entry.kind != runtime::TableEntry::Kind::Call)
      used[entry.slot] = true;
    for (const auto *operands : {&entry.arguments, &entry.results})
      for (const runtime::TableOperand &operand : *operands)
        if (operand.kind == runtime::TableOperand::Kind::Slot)
          used[operand.index] = true;
  }
  return used;
}

static RankMemory memoryOf(const runtime::Manifest &manifest,
                           const Coordinates &rank) {
  RankMemory memory;
  auto isOn = [&](size_t set) { return manifest.rankSets[set].contains(rank); };
  auto bytesOf = [&](const runtime::TensorInfo &tensor) {
    return double(runtime::localBytes(tensor, manifest.mesh));
  };
  for (const runtime::VariableInfo &variable : manifest.variables)
    if (isOn(variable.ranks))
      memory.variables[static_cast<size_t>(variable.role)] += bytesOf(variable);
  for (const runtime::ProgramInfo &program : manifest.programs)
    if (isOn(program.ranks))
      memory.arena = std::max(memory.arena, double(program.arenaBytes));
  for (const runtime::TableInfo &table : manifest.tables) {
    for (const runtime::PortInfo &input : table.inputs)
      if (isOn(input.ranks))
        memory.passed += double(table.microBatches) * bytesOf(input);
    for (const runtime::TableOutput &output : table.outputs)
      if (isOn(output.ranks))
        memory.passed += double(output.perMicroBatch ? table.microBatches : 1) *
                         bytesOf(output);
    for (const runtime::TableList &list : table.lists) {
      if (!isOn(list.ranks))
        continue;
      std::vector<bool> used = slotsOf(table, list);
      for (size_t slot = 0; slot < used.size(); ++slot)
        if (used[slot])
          memory.slots += double(table.slots[slot].bytes);
    }
  }
  return memory;
}

/// Names ranks by the coordinates that all of them share.
static std::string nameOf(const runtime::Manifest &manifest,
                          const std::vector<Coordinates> &ranks) {
  std::string name;
  for (size_t axis = 0; axis < manifest.mesh.size(); ++axis) {
    bool isShared = std::all_of(
        ranks.begin(), ranks.end(), [&](const Coordinates &coordinates) {
          return coordinates[axis] == ranks.front()[axis];
        });
    if (isShared && manifest.mesh[axis].size > 1)
      name += (name.empty() ? "" : ", ") + manifest.mesh[axis].name + " " +
              std::to_string(ranks.front()[axis]);
  }
  return name;
}

std::vector<RankMemory> tools::getMemory(const runtime::Manifest &manifest) {
  // Ranks that use the same sets have the same memory.
  std::map<std::vector<bool>, size_t> known;
  std::vector<std::vector<Coordinates>> members;
  for (int64_t rank = 0; rank < manifest.numDevices(); ++rank) {
    Coordinates coordinates = coordinatesOf(manifest, rank);
    std::vector<bool> sets;
    for (const runtime::RankSet &set : manifest.rankSets)
      sets.push_back(set.contains(coordinates));
    auto [place, isNew] = known.try_emplace(sets, members.size());
    if (isNew)
      members.emplace_back();
    members[place->second].push_back(std::move(coordinates));
  }
  std::vector<RankMemory> memory;
  for (const std::vector<Coordinates> &ranks : members) {
    memory.push_back(memoryOf(manifest, ranks.front()));
    memory.back().ranks = nameOf(manifest, ranks);
  }
  return memory;
}
