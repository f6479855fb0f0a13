//===- Links.cpp - What collectives send over which links -----------------===//

#include "communicators/Links.h"

#include <algorithm>
#include <map>

namespace heddle::runtime {

Links::Links(NetworkInfo info, int64_t ranks) : network(std::move(info)) {
  int64_t unit = 1;
  for (const NetworkLevel &level : network.levels) {
    unitSizes.push_back(unit);
    firstLinks.push_back(count());
    int64_t units = (ranks + unit - 1) / unit;
    capacities.insert(capacities.end(), size_t(2 * units), level.bandwidth);
    unit *= level.count;
  }
}

Links::Messages Links::shifted(std::span<const int32_t> ranks, size_t shift) {
  std::vector<int32_t> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  Messages messages;
  for (size_t i = 0; i < sorted.size(); ++i)
    messages.emplace_back(sorted[i], sorted[(i + shift) % sorted.size()]);
  return messages;
}

int Links::meetingLevel(int32_t from, int32_t to) const {
  int level = int(unitSizes.size()) - 1;
  while (level >= 0 &&
         from / unitSizes[size_t(level)] == to / unitSizes[size_t(level)])
    --level;
  return level;
}

Phase Links::phase(const Messages &messages, double bytes) const {
  Phase phase;
  std::map<int32_t, int32_t> loads;
  for (auto [from, to] : messages) {
    int meeting = meetingLevel(from, to);
    if (meeting < 0)
      continue;
    auto level = size_t(meeting);
    phase.latency = std::max(phase.latency, network.levels[level].latency);
    int64_t unit = unitSizes[level];
    ++loads[firstLinks[level] + int32_t(2 * (from / unit))];
    ++loads[firstLinks[level] + int32_t(2 * (to / unit)) + 1];
  }
  phase.bytes = bytes;
  for (auto [link, messages] : loads)
    phase.loads.push_back({link, messages});
  return phase;
}

Phase Links::ring(std::span<const int32_t> ranks, double steps,
                  double bytes) const {
  Messages messages = shifted(ranks, 1);
  Phase ring = phase(messages, bytes);
  ring.latency = 0;
  for (auto [from, to] : messages)
    if (int level = meetingLevel(from, to); level >= 0)
      ring.latency += network.levels[size_t(level)].latency;
  ring.latency *= steps / double(messages.size());
  return ring;
}

Traffic Links::allReduce(std::span<const int32_t> ranks, int64_t bytes) const {
  int64_t members = int64_t(ranks.size());
  auto steps = double(2 * (members - 1));
  int64_t block = (bytes + members - 1) / members;
  return {ring(ranks, steps, steps * double(block))};
}

Traffic Links::allGather(std::span<const int32_t> ranks,
                         int64_t blockBytes) const {
  auto steps = double(ranks.size() - 1);
  return {ring(ranks, steps, steps * double(blockBytes))};
}

Traffic Links::allToAll(std::span<const int32_t> ranks,
                        int64_t blockBytes) const {
  Traffic traffic;
  for (size_t shift = 1; shift < ranks.size(); ++shift)
    traffic.push_back(phase(shifted(ranks, shift), double(blockBytes)));
  return traffic;
}

Traffic Links::broadcast(std::span<const int32_t> ranks, int64_t bytes) const {
  return {ring(ranks, double(ranks.size() - 1), double(bytes))};
}

Traffic Links::permute(std::span<const int32_t> ranks, const int32_t *sources,
                       int64_t bytes) const {
  Messages messages;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (sources[i] >= 0 && size_t(sources[i]) < ranks.size())
      messages.emplace_back(ranks[size_t(sources[i])], ranks[i]);
  return {phase(messages, double(bytes))};
}

Traffic Links::transfer(int32_t from, int32_t to, int64_t bytes) const {
  return {phase({{from, to}}, double(bytes))};
}

} // namespace heddle::runtime
