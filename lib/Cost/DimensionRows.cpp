//===- DimensionRows.cpp - Which rows the devices hold --------------------===//

#include "DimensionRows.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"
#include <set>

using namespace heddle;
using Runs = std::vector<DimensionRows::Run>;

bool DimensionRows::isPadding(const Runs &runs) {
  return llvm::all_of(runs, [](const Run &run) { return run.first < 0; });
}

/// Joins runs that follow each other.
void DimensionRows::append(Runs &runs, Run run) {
  if (run.count <= 0)
    return;
  if (!runs.empty()) {
    DimensionRows::Run &last = runs.back();
    bool follows =
        last.first < 0 ? run.first < 0 : run.first == last.first + last.count;
    if (follows) {
      last.count += run.count;
      return;
    }
  }
  runs.push_back(run);
}

/// Positions [begin, begin + count) of what a device holds, and padding beyond.
Runs DimensionRows::take(const Runs &runs, int64_t begin, int64_t count) {
  Runs result;
  int64_t at = 0, end = begin + count;
  for (const DimensionRows::Run &run : runs) {
    int64_t from = std::max(begin, at), to = std::min(end, at + run.count);
    append(result, {run.first < 0 ? -1 : run.first + (from - at), to - from});
    at += run.count;
  }
  append(result, {-1, end - std::max(begin, at)});
  return result;
}

DimensionRows::DimensionRows(const MeshTopology &topology, int64_t size)
    : topology(topology), size(size) {}

int64_t DimensionRows::getIndex(int64_t device,
                                const std::vector<unsigned> &axes) const {
  int64_t index = 0;
  for (unsigned axis : axes)
    index = index * topology.getAxisSizes()[axis] +
            topology.getCoordinate(device, axis);
  return index;
}

unsigned DimensionRows::intern(State state) {
  std::string key;
  for (const Runs &runs : state.held) {
    for (const Run &run : runs)
      key.append(reinterpret_cast<const char *>(&run), sizeof(run));
    key.push_back('|');
  }
  auto [known, isNew] = numbers.try_emplace(key, unsigned(states.size()));
  if (!isNew)
    return known->second;
  for (const Runs &runs : state.held) {
    state.hashes.push_back(llvm::xxh3_64bits(
        llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(runs.data()),
                                runs.size() * sizeof(Run))));
    for (const Run &run : runs)
      state.isPadded |= run.first < 0;
  }
  for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis)
    for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
      // The device at the axis' beginning, in the same row of the mesh.
      int64_t stride = 1;
      for (size_t i = axis + 1; i < topology.getAxisSizes().size(); ++i)
        stride *= topology.getAxisSizes()[i];
      int64_t first = device - stride * topology.getCoordinate(device, axis);
      if (state.held[device] != state.held[first]) {
        state.depends |= AxisMask(1) << axis;
        break;
      }
    }
  states.push_back(std::move(state));
  return known->second;
}

unsigned DimensionRows::ofLayout(const std::vector<unsigned> &axes) {
  int64_t parts = 1;
  for (unsigned axis : axes)
    parts *= topology.getAxisSizes()[axis];
  State state;
  state.rows = llvm::divideCeil(size, parts);
  for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
    int64_t begin = std::min(size, state.rows * getIndex(device, axes));
    state.held.push_back(take({{begin, size - begin}}, 0, state.rows));
  }
  unsigned number = intern(std::move(state));
  if (!states[number].layout)
    states[number].layout = axes;
  return number;
}

unsigned DimensionRows::permute(unsigned number,
                                const std::vector<int64_t> &sources) {
  State state;
  state.rows = states[number].rows;
  for (int64_t source : sources)
    state.held.push_back(source < 0 ? Runs{{-1, state.rows}}
                                    : states[number].held[source]);
  return intern(std::move(state));
}

unsigned DimensionRows::cut(unsigned number,
                            const std::vector<unsigned> &axes) {
  auto [known, isNew] = cuts.try_emplace({number, axes});
  if (!isNew)
    return known->second;
  int64_t parts = 1;
  for (unsigned axis : axes)
    parts *= topology.getAxisSizes()[axis];
  State state;
  state.rows = llvm::divideCeil(states[number].rows, parts);
  for (int64_t device = 0; device < topology.getNumDevices(); ++device)
    state.held.push_back(take(states[number].held[device],
                              state.rows * getIndex(device, axes), state.rows));
  unsigned result = intern(std::move(state));
  return cuts[{number, axes}] = result;
}

const std::vector<unsigned> &
DimensionRows::join(unsigned number, const std::vector<unsigned> &axes) {
  auto [known, isNew] = joins.try_emplace({number, axes});
  if (!isNew)
    return known->second;
  int64_t members = 1;
  for (unsigned axis : axes)
    members *= topology.getAxisSizes()[axis];
  int64_t part = states[number].rows;
  // All that the members hold, on each device: the same in a whole group, of
  // which the first has the lowest number.
  AxisMask mask = 0;
  for (unsigned axis : axes)
    mask |= AxisMask(1) << axis;
  int64_t devices = topology.getNumDevices();
  std::vector<std::vector<int64_t>> groups(devices);
  for (int64_t device = 0; device < devices; ++device) {
    auto &group = groups[topology.getFirstOfGroup(device, mask)];
    group.resize(members);
    group[getIndex(device, axes)] = device;
  }
  std::vector<Runs> all(devices);
  for (int64_t device = 0; device < devices; ++device) {
    int64_t first = topology.getFirstOfGroup(device, mask);
    if (first != device)
      all[device] = all[first];
    for (int64_t member : groups[device])
      for (const Run &run : states[number].held[member])
        append(all[device], run);
  }
  // Of as many rows as some layout's parts have, or several of them.
  std::set<int64_t> totals = {part * members};
  for (int64_t parts = 1; parts <= devices; ++parts)
    for (int64_t count = 1; devices % parts == 0 && count <= parts; ++count)
      if (parts % count == 0)
        totals.insert(llvm::divideCeil(size, parts) * count);
  for (int64_t total : totals) {
    if (int64_t(llvm::divideCeil(total, members)) != part ||
        total > part * members)
      continue;
    State state;
    state.rows = total;
    bool isPadding = true; // what is dropped
    for (const Runs &runs : all) {
      state.held.push_back(take(runs, 0, total));
      for (const Run &run : take(runs, total, part * members - total))
        isPadding &= run.first < 0;
    }
    if (isPadding) {
      unsigned result = intern(std::move(state));
      joins[{number, axes}].push_back(result);
    }
  }
  return joins[{number, axes}];
}
