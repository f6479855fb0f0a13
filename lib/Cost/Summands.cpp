//===- Summands.cpp - Which part of a sum the devices hold ----------------===//

#include "Summands.h"
#include "llvm/ADT/STLExtras.h"

using namespace heddle;

unsigned Summands::intern(std::vector<std::vector<bool>> holders) {
  llvm::sort(holders, std::greater<>());
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
  auto [known, isNew] = numbers.try_emplace(holders, unsigned(states.size()));
  if (!isNew)
    return known->second;
  State state{std::move(holders)};
  state.hasAll.assign(topology.getNumDevices(), true);
  for (const std::vector<bool> &devices : state.holders)
    for (size_t device = 0; device < devices.size(); ++device)
      if (!devices[device])
        state.hasAll[device] = false;
  for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis)
    for (const std::vector<bool> &devices : state.holders)
      for (int64_t device = 0; device < topology.getNumDevices(); ++device)
        if (devices[device] !=
            devices[topology.getFirstOfGroup(device, AxisMask(1) << axis)])
          state.depends |= AxisMask(1) << axis;
  states.push_back(std::move(state));
  return known->second;
}

unsigned Summands::ofPartial(AxisMask axes) {
  // Devices with the same summand have the same place in their groups.
  std::map<int64_t, std::vector<bool>> holders;
  for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
    std::vector<bool> &devices =
        holders[topology.getFirstOfGroup(device, ~axes)];
    devices.resize(topology.getNumDevices());
    devices[device] = true;
  }
  std::vector<std::vector<bool>> list;
  list.reserve(holders.size());
  for (auto &[place, devices] : holders)
    list.push_back(std::move(devices));
  return intern(std::move(list));
}

std::optional<unsigned> Summands::reduce(unsigned number, AxisMask axes,
                                         bool isMax) {
  std::vector<std::vector<bool>> sums;
  for (const std::vector<bool> &devices : states[number].holders) {
    std::vector<bool> inGroup(devices.size()), sum(devices.size());
    for (size_t device = 0; device < devices.size(); ++device) {
      if (!devices[device])
        continue;
      int64_t group = topology.getFirstOfGroup(device, axes);
      if (inGroup[group] && !isMax)
        return std::nullopt;
      inGroup[group] = true;
    }
    for (size_t device = 0; device < devices.size(); ++device)
      sum[device] = inGroup[topology.getFirstOfGroup(device, axes)];
    sums.push_back(std::move(sum));
  }
  return intern(std::move(sums));
}

unsigned Summands::keepFirst(unsigned number, AxisMask axes) {
  std::vector<std::vector<bool>> kept = states[number].holders;
  for (std::vector<bool> &devices : kept)
    for (size_t device = 0; device < devices.size(); ++device)
      if (topology.getFirstOfGroup(device, axes) != int64_t(device))
        devices[device] = false;
  return intern(std::move(kept));
}

unsigned Summands::ofSets(const std::vector<std::vector<unsigned>> &sets) {
  std::vector<std::vector<bool>> holders;
  for (size_t device = 0; device < sets.size(); ++device)
    for (unsigned summand : sets[device]) {
      if (holders.size() <= summand)
        holders.resize(summand + 1, std::vector<bool>(sets.size()));
      holders[summand][device] = true;
    }
  return intern(std::move(holders));
}

std::vector<std::vector<unsigned>> Summands::getSets(unsigned number) const {
  std::vector<std::vector<unsigned>> sets(topology.getNumDevices());
  for (auto [summand, devices] : llvm::enumerate(states[number].holders))
    for (size_t device = 0; device < devices.size(); ++device)
      if (devices[device])
        sets[device].push_back(unsigned(summand));
  return sets;
}

bool Summands::isPartialOver(unsigned number, AxisMask axes, bool isMax) const {
  for (const std::vector<bool> &devices : states[number].holders) {
    std::vector<int64_t> counts(devices.size());
    for (size_t device = 0; device < devices.size(); ++device)
      counts[topology.getFirstOfGroup(device, axes)] += devices[device];
    for (size_t device = 0; device < devices.size(); ++device)
      if (topology.getFirstOfGroup(device, axes) == int64_t(device) &&
          (isMax ? counts[device] == 0 : counts[device] != 1))
        return false;
  }
  return true;
}
