//===- Profile.cpp - Measured times of calls and collectives --------------===//

#include "heddle/Profile/Profile.h"
#include "llvm/ADT/STLExtras.h"

using namespace heddle;

double heddle::interpolate(const MessageTimes &times, int64_t bytes) {
  if (times.empty())
    return 0;
  auto above = times.lower_bound(bytes);
  if (above == times.begin())
    return above->second;
  auto below = std::prev(above);
  if (above == times.end()) {
    // Beyond the largest size, the last two sizes give the bandwidth.
    if (below == times.begin())
      return below->second * double(bytes) /
             double(std::max<int64_t>(below->first, 1));
    above = below;
    below = std::prev(above);
  }
  double slope =
      (above->second - below->second) / double(above->first - below->first);
  return below->second + std::max(slope, 0.0) * double(bytes - below->first);
}

void Profile::add(MachineProfile measured) {
  auto known = llvm::find_if(machines, [&](const MachineProfile &machine) {
    return machine.isSameMachine(measured);
  });
  if (known == machines.end()) {
    machines.push_back(std::move(measured));
    return;
  }
  known->gap = measured.gap;
  known->wake = measured.wake;
  known->start = measured.start;
  for (auto &[key, time] : measured.operators) {
    OperatorTime &old = known->operators[key];
    double beside = old.beside;
    old = time;
    if (old.beside == 0)
      old.beside = beside;
  }
  for (const auto &[key, times] : measured.collectives)
    for (auto [bytes, seconds] : times)
      known->collectives[key][bytes] = seconds;
}

const MachineProfile *Profile::find(int64_t ranks) const {
  const MachineProfile *best = nullptr;
  auto isBetter = [&](int64_t a, int64_t b) {
    if ((a <= ranks) != (b <= ranks))
      return a <= ranks;
    return a <= ranks ? a > b : a < b;
  };
  for (const MachineProfile &machine : machines)
    if (!best || isBetter(machine.ranks, best->ranks))
      best = &machine;
  return best;
}
