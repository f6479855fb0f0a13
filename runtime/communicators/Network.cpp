//===- Network.cpp - Links shared by what runs at the same time -----------===//

#include "communicators/Network.h"
#include "support/Message.h"

#include <algorithm>
#include <cmath>

namespace heddle::runtime {

/// Seconds that the clock can count: 30 years.
static constexpr double kForever = 1e9;

//===----------------------------------------------------------------------===//
// LinkSchedule
//===----------------------------------------------------------------------===//

void LinkSchedule::beginPhase(Progress &progress) {
  for (; !hasEnded(progress); ++progress.phase) {
    const Phase &phase = progress.flow->traffic[progress.phase];
    progress.latency = phase.latency;
    progress.bytes = phase.loads.empty() ? 0 : phase.bytes;
    if (progress.latency > 0 || progress.bytes > 0)
      return;
  }
}

double LinkSchedule::remaining(const Progress &progress) const {
  if (progress.latency > 0)
    return progress.latency;
  double rate = std::numeric_limits<double>::infinity();
  for (auto [link, own] : progress.flow->traffic[progress.phase].loads)
    rate =
        std::min(rate, links.capacity(link) / double(messages[size_t(link)]));
  return progress.bytes / rate;
}

void LinkSchedule::run(std::vector<Progress> &flows, double from,
                       double until) {
  std::vector<double> seconds;
  while (!flows.empty() && from < until) {
    messages.assign(size_t(links.count()), 0);
    for (const Progress &progress : flows)
      if (progress.latency <= 0)
        for (auto [link, own] : progress.flow->traffic[progress.phase].loads)
          messages[size_t(link)] += own;
    seconds.clear();
    for (const Progress &progress : flows)
      seconds.push_back(remaining(progress));
    double pass = std::min(*std::min_element(seconds.begin(), seconds.end()),
                           until - from);
    from += pass;
    for (size_t i = 0; i < flows.size(); ++i) {
      Progress &progress = flows[i];
      double left = std::max(0.0, seconds[i] - pass);
      // Rounding must not leave a rest that is too short to advance the time.
      bool isDone = left <= 1e-12 * seconds[i] || from + left == from;
      if (progress.latency > 0)
        progress.latency = isDone ? 0 : left;
      else
        progress.bytes = isDone ? 0 : progress.bytes * (left / seconds[i]);
      if (progress.latency > 0 || progress.bytes > 0)
        continue;
      ++progress.phase;
      beginPhase(progress);
      if (hasEnded(progress))
        progress.flow->end = from;
    }
    std::erase_if(flows, hasEnded);
  }
}

void LinkSchedule::begin(std::shared_ptr<Flow> flow, double time) {
  run(underWay, now, time);
  now = time;
  flow->hasBegun = true;
  flow->end = time;
  Progress progress{std::move(flow)};
  beginPhase(progress);
  if (hasEnded(progress))
    return;
  underWay.push_back(std::move(progress));
  std::vector<Progress> future = underWay;
  run(future, now, std::numeric_limits<double>::infinity());
}

//===----------------------------------------------------------------------===//
// Network
//===----------------------------------------------------------------------===//

Expected<std::shared_ptr<Network>> Network::create(const NetworkInfo &info,
                                                   int64_t ranks) {
  if (ranks > info.numDevices())
    return errorOf("expected a mesh of at most the ", info.numDevices(),
                   " devices of the cluster '", info.name, "', got one of ",
                   ranks);
  return std::shared_ptr<Network>(new Network(Links(info, ranks)));
}

void Network::begin(const std::shared_ptr<Flow> &flow, int64_t time) {
  {
    std::lock_guard lock(mutex);
    auto sinceStart = std::chrono::nanoseconds(time) - start.time_since_epoch();
    lastBegin =
        std::max(lastBegin, std::chrono::duration<double>(sinceStart).count());
    schedule.begin(flow, lastBegin);
  }
  changed.notify_all();
}

int64_t Network::getEnd(const Flow &flow) {
  std::lock_guard lock(mutex);
  return std::chrono::nanoseconds(start.time_since_epoch()).count() +
         int64_t(std::min(flow.end, kForever) * 1e9);
}

Network::Wait Network::waitFor(const Flow &flow,
                               std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex);
  if (!changed.wait_for(lock, timeout,
                        [&] { return isInterrupted || flow.hasBegun; }))
    return Wait::NotBegun;
  // Another flow may move this one's end while this thread sleeps.
  while (!isInterrupted) {
    auto end = start +
               std::chrono::ceil<Clock::duration>(
                   std::chrono::duration<double>(std::min(flow.end, kForever)));
    if (Clock::now() >= end)
      return Wait::Ended;
    changed.wait_until(lock, end);
  }
  return Wait::Interrupted;
}

void Network::interrupt() {
  {
    std::lock_guard lock(mutex);
    isInterrupted = true;
  }
  changed.notify_all();
}

} // namespace heddle::runtime
