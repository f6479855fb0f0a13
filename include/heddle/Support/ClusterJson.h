//===- ClusterJson.h - Reading clusters -------------------------*- C++ -*-===//
//
// Reads a cluster from JSON (docs/cluster.md). Does not use LLVM, because the
// runtime reads clusters with it, too.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SUPPORT_CLUSTERJSON_H
#define HEDDLE_SUPPORT_CLUSTERJSON_H

#include "heddle/Support/Cluster.h"
#include "heddle/Support/JsonText.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

namespace detail {

/// Reads the parts of a cluster. Each function returns the problem, if there is
/// one.
class ClusterReader {
public:
  using Json = nlohmann::json;
  using Problem = std::optional<std::string>;
  using Path = const std::string &;

  explicit ClusterReader(std::string_view source)
      : source(source.empty() ? "cluster" : source) {}

  Problem read(std::string_view text, Cluster &cluster) {
    Json root;
    if (auto problem = parseJson(text, root))
      return describePlace(source, text, problem->offset) + ": " +
             problem->message;
    if (std::string other = describeOtherKind(root, "levels", "a cluster");
        !other.empty())
      return error("$", other);
    if (auto problem = checkKeys(root, "$", {"version", "name", "levels"},
                                 {"device", "devices"}))
      return problem;
    if (root["version"] != 1)
      return error("$.version", "expected 1, got " + showJson(root["version"]));
    if (auto problem = readString(root["name"], "$.name", cluster.name))
      return problem;
    if (root.contains("device") == root.contains("devices"))
      return error("$", "expected either a \"device\" or, for several kinds, "
                        "\"devices\"");
    if (root.contains("device"))
      if (auto problem =
              readDevice(root["device"], "$.device", {}, cluster.device))
        return problem;
    const Json &levels = root["levels"];
    if (!levels.is_array())
      return error("$.levels", "expected a list of the topology's levels, "
                               "innermost first, got " +
                                   showJson(levels));
    for (const Json &level : levels)
      if (auto problem = readLevel(
              level, "$.levels[" + std::to_string(cluster.levels.size()) + "]",
              cluster))
        return problem;
    if (root.contains("devices"))
      return readGroups(root["devices"], cluster);
    return std::nullopt;
  }

private:
  /// The limit of devices. More are a mistake, and would overflow products.
  static constexpr int64_t kMaxDevices = int64_t(1) << 24;

  Problem error(Path path, const std::string &message) {
    return source + ": " + path + ": " + message;
  }

  Problem checkKeys(const Json &object, Path path,
                    const std::vector<std::string> &required,
                    const std::vector<std::string> &optional) {
    if (!object.is_object())
      return error(path, "expected an object, got " + object.dump());
    std::vector<std::string> known = required;
    known.insert(known.end(), optional.begin(), optional.end());
    for (const auto &[key, value] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        std::string names;
        for (const std::string &name : known)
          names += (names.empty() ? "" : ", ") + name;
        return error(path + "." + key, "unknown key, expected one of " + names);
      }
    for (const std::string &key : required)
      if (!object.contains(key))
        return error(path, "expected a \"" + key + "\"");
    return std::nullopt;
  }

  Problem readString(const Json &value, Path path, std::string &into) {
    if (!value.is_string() || value.get<std::string>().empty())
      return error(path, "expected a name, got " + showJson(value));
    into = value.get<std::string>();
    return std::nullopt;
  }

  /// Reads a finite number of at least 0; above 0 if `isPositive`.
  Problem readNumber(const Json &value, Path path, bool isPositive,
                     double &into) {
    double number = value.is_number() ? value.get<double>() : NAN;
    if (!std::isfinite(number) || number < 0 || (isPositive && number == 0))
      return error(path,
                   std::string("expected a ") +
                       (isPositive ? "positive number" : "number, 0 or more") +
                       ", got " + showJson(value));
    into = number;
    return std::nullopt;
  }

  /// Reads a whole number from 1 to `most`.
  Problem readCount(const Json &value, Path path, int64_t most, int64_t &into) {
    // A float such as 80e9 is accepted, too, if it is a whole number.
    double number = value.is_number() ? value.get<double>() : NAN;
    if (!(number >= 1) || number > double(most) || number != std::floor(number))
      return error(path, "expected a whole number from 1 to " +
                             std::to_string(most) + ", got " + showJson(value));
    into = value.is_number_float() ? int64_t(number) : value.get<int64_t>();
    return std::nullopt;
  }

  /// Reads a share above 0 and at most 1.
  Problem readShare(const Json &value, Path path, double &into) {
    double share = value.is_number() ? value.get<double>() : NAN;
    if (!(share > 0 && share <= 1))
      return error(path, "expected a share above 0 and at most 1, got " +
                             showJson(value));
    into = share;
    return std::nullopt;
  }

  Problem readEfficiency(const Json &value, Path path,
                         DeviceEfficiency &efficiency) {
    if (auto problem = checkKeys(value, path, {}, {"peak", "memory_bandwidth"}))
      return problem;
    if (value.contains("peak"))
      if (auto problem =
              readShare(value["peak"], path + ".peak", efficiency.peak))
        return problem;
    if (value.contains("memory_bandwidth"))
      return readShare(value["memory_bandwidth"], path + ".memory_bandwidth",
                       efficiency.memoryBandwidth);
    return std::nullopt;
  }

  /// Reads a device. `others` are keys that it has beside its own.
  Problem readDevice(const Json &value, Path path,
                     const std::vector<std::string> &others,
                     ClusterDevice &device) {
    std::vector<std::string> required = {"kind", "memory", "memory_bandwidth",
                                         "peak"};
    required.insert(required.end(), others.begin(), others.end());
    if (auto problem =
            checkKeys(value, path, required, {"launch", "efficiency"}))
      return problem;
    if (auto problem = readString(value["kind"], path + ".kind", device.kind))
      return problem;
    if (auto problem = readCount(value["memory"], path + ".memory",
                                 int64_t(1) << 50, device.memory))
      return problem;
    if (auto problem =
            readNumber(value["memory_bandwidth"], path + ".memory_bandwidth",
                       /*isPositive=*/true, device.memoryBandwidth))
      return problem;
    if (value.contains("launch"))
      if (auto problem = readNumber(value["launch"], path + ".launch",
                                    /*isPositive=*/false, device.launch))
        return problem;
    if (value.contains("efficiency"))
      if (auto problem = readEfficiency(
              value["efficiency"], path + ".efficiency", device.efficiency))
        return problem;
    const Json &peak = value["peak"];
    if (!peak.is_object() || peak.empty())
      return error(path + ".peak",
                   "expected an object of element types and operations a "
                   "second, got " +
                       peak.dump());
    for (const auto &[type, rate] : peak.items()) {
      static const std::string_view known[] = {"f64",  "f32", "tf32", "f16",
                                               "bf16", "f8",  "i8"};
      if (std::find(std::begin(known), std::end(known), type) ==
          std::end(known))
        return error(path + ".peak." + type,
                     "expected f64, f32, tf32, f16, bf16, f8 or i8");
      if (auto problem = readNumber(rate, path + ".peak." + type,
                                    /*isPositive=*/true, device.peak[type]))
        return problem;
    }
    return std::nullopt;
  }

  /// Reads the kinds of unequal devices.
  Problem readGroups(const Json &value, Cluster &cluster) {
    if (!value.is_array() || value.size() < 2)
      return error("$.devices",
                   "expected a list of two kinds of device or more, each with "
                   "the \"count\" of its devices, got " +
                       showJson(value));
    int64_t count = 0;
    for (const Json &entry : value) {
      std::string path =
          "$.devices[" + std::to_string(cluster.groups.size()) + "]";
      ClusterGroup &group = cluster.groups.emplace_back();
      if (auto problem = readDevice(entry, path, {"count"}, group.device))
        return problem;
      if (auto problem = readCount(entry["count"], path + ".count", kMaxDevices,
                                   group.count))
        return problem;
      count += group.count;
    }
    if (count != cluster.getNumDevices())
      return error("$.devices", "expected counts that add up to the " +
                                    std::to_string(cluster.getNumDevices()) +
                                    " devices of $.levels, got " +
                                    std::to_string(count));
    cluster.device = cluster.getWeakest();
    if (cluster.device.peak.empty())
      return error("$.devices",
                   "expected an element type in the peak of every kind");
    return std::nullopt;
  }

  /// Reads the next level and appends it to the cluster's.
  Problem readLevel(const Json &value, Path path, Cluster &cluster) {
    ClusterLevel level;
    if (auto problem =
            checkKeys(value, path, {"name", "count", "latency", "bandwidth"},
                      {"links", "efficiency"}))
      return problem;
    if (auto problem = readString(value["name"], path + ".name", level.name))
      return problem;
    if (auto problem = readCount(value["count"], path + ".count", kMaxDevices,
                                 level.count))
      return problem;
    if (auto problem = readNumber(value["latency"], path + ".latency",
                                  /*isPositive=*/false, level.latency))
      return problem;
    if (auto problem = readNumber(value["bandwidth"], path + ".bandwidth",
                                  /*isPositive=*/true, level.bandwidth))
      return problem;
    if (value.contains("links"))
      if (auto problem = readCount(value["links"], path + ".links", kMaxDevices,
                                   level.links))
        return problem;
    if (value.contains("efficiency"))
      if (auto problem = readShare(value["efficiency"], path + ".efficiency",
                                   level.efficiency))
        return problem;
    int64_t devices = cluster.getNumDevices() * level.count;
    if (devices > kMaxDevices)
      return error(path + ".count",
                   "expected at most " + std::to_string(kMaxDevices) +
                       " devices in all, got " + std::to_string(devices));
    for (const ClusterLevel &other : cluster.levels)
      if (other.name == level.name)
        return error(path + ".name", "expected names that differ, got \"" +
                                         level.name + "\" twice");
    cluster.levels.push_back(std::move(level));
    return std::nullopt;
  }

  std::string source;
};

} // namespace detail

/// Reads a cluster from JSON text. Returns the problem, if there is one. It
/// names `source` and the place: "c.json: $.levels[1].latency: expected ...".
inline std::optional<std::string> readClusterJson(std::string_view text,
                                                  std::string_view source,
                                                  Cluster &cluster) {
  return detail::ClusterReader(source).read(text, cluster);
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_CLUSTERJSON_H
