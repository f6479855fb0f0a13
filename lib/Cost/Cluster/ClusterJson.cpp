//===- ClusterJson.cpp - Reading and writing clusters ---------------------===//

#include "heddle/Support/ClusterJson.h"
#include "heddle/Cost/Cluster.h"

using namespace heddle;
using llvm::StringRef;
using json = nlohmann::json;

llvm::Expected<Cluster> heddle::parseCluster(StringRef text, StringRef source) {
  Cluster cluster;
  if (std::optional<std::string> problem =
          readClusterJson(text, source, cluster))
    return llvm::createStringError(*problem);
  return cluster;
}

/// Returns the shortest text that reads back as the same number.
static std::string number(double value) { return json(value).dump(); }
static std::string quoted(const std::string &text) { return json(text).dump(); }

/// Returns the keys of a device, the first line's indentation left out.
static std::string write(const ClusterDevice &device) {
  std::string text =
      "\"kind\": " + quoted(device.kind) +
      ",\n    \"memory\": " + std::to_string(device.memory) +
      ",\n    \"memory_bandwidth\": " + number(device.memoryBandwidth) +
      ",\n    \"launch\": " + number(device.launch) + ",\n    \"peak\": {";
  std::string comma;
  for (const auto &[type, rate] : device.peak) {
    text += comma + quoted(type) + ": " + number(rate);
    comma = ", ";
  }
  text += "}";
  if (device.efficiency != DeviceEfficiency())
    text +=
        ",\n    \"efficiency\": {\"peak\": " + number(device.efficiency.peak) +
        ", \"memory_bandwidth\": " + number(device.efficiency.memoryBandwidth) +
        "}";
  return text;
}

std::string heddle::writeCluster(const Cluster &cluster) {
  std::string text =
      "{\n  \"version\": 1,\n  \"name\": " + quoted(cluster.name);
  std::string comma;
  if (cluster.groups.empty()) {
    text += ",\n  \"device\": {\n    " + write(cluster.device) + "\n  }";
  } else {
    text += ",\n  \"devices\": [";
    for (const ClusterGroup &group : cluster.groups) {
      text += comma + "{\n    \"count\": " + std::to_string(group.count) +
              ",\n    " + write(group.device) + "\n  }";
      comma = ", ";
    }
    text += "]";
  }
  text += ",\n  \"levels\": [";
  comma = "\n";
  for (const ClusterLevel &level : cluster.levels) {
    text += comma + "    {\"name\": " + quoted(level.name) +
            ", \"count\": " + std::to_string(level.count) +
            ", \"latency\": " + number(level.latency) +
            ", \"bandwidth\": " + number(level.bandwidth) +
            ", \"links\": " + std::to_string(level.links);
    if (level.efficiency != 1)
      text += ", \"efficiency\": " + number(level.efficiency);
    text += "}";
    comma = ",\n";
  }
  return text + (cluster.levels.empty() ? "]\n}\n" : "\n  ]\n}\n");
}
