//===- NetworkFile.cpp - Reads a cluster to emulate -----------------------===//

#include "heddle/Support/ClusterJson.h"
#include "heddle_rt/network.h"
#include "support/Message.h"
#include "support/ReadFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace heddle::runtime {

int64_t NetworkInfo::numDevices() const {
  int64_t devices = 1;
  for (const NetworkLevel &level : levels)
    devices *= level.count;
  return devices;
}

double DeviceSpeed::peakOf(std::string_view type) const {
  for (std::string_view known : {type, std::string_view("f32")})
    if (auto found = peak.find(known); found != peak.end())
      return found->second;
  auto least = std::ranges::min_element(
      peak, {}, [](auto &entry) { return entry.second; });
  return least->second;
}

Expected<NetworkInfo> parseNetwork(std::string_view text,
                                   std::string_view source) {
  Cluster cluster;
  if (auto problem = readClusterJson(text, source, cluster))
    return error(*problem);
  NetworkInfo network;
  network.name = cluster.name;
  network.device = {cluster.device.launch,
                    cluster.device.getMemoryRate(),
                    {cluster.device.peak.begin(), cluster.device.peak.end()}};
  for (auto &[type, rate] : network.device.peak)
    rate *= cluster.device.efficiency.peak;
  for (const ClusterLevel &level : cluster.levels)
    network.levels.push_back(
        {level.name, level.count, level.latency, level.getUnitRate()});
  return network;
}

Expected<NetworkInfo> readNetwork(const std::filesystem::path &file) {
  std::optional<std::string> text = readFile(file);
  if (!text)
    return errorOf("cluster '", file.string(), "': ", std::strerror(errno));
  return parseNetwork(*text, file.string());
}

} // namespace heddle::runtime
