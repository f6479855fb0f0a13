//===- ClusterJson.cpp - Reading and writing clusters ---------------------===//

#include "heddle/Cost/Cluster.h"
#include "heddle/Support/JsonText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>
#include <nlohmann/json.hpp>

using namespace heddle;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;
using json = nlohmann::json;

/// The limit of devices. More are a mistake, and would overflow products.
static constexpr int64_t kMaxDevices = int64_t(1) << 24;

namespace {

class ClusterReader {
public:
  explicit ClusterReader(StringRef source)
      : source(source.empty() ? "cluster" : source.str()) {}

  llvm::Expected<Cluster> read(StringRef text);

private:
  Error error(const Twine &path, const Twine &message) {
    return llvm::createStringError(Twine(source) + ": " + path + ": " +
                                   message);
  }
  Error parse(StringRef text, json &root);
  Error checkKeys(const json &object, const std::string &path,
                  llvm::ArrayRef<StringRef> required,
                  llvm::ArrayRef<StringRef> optional);
  Error readString(const json &value, const std::string &path,
                   std::string &into);
  /// Reads a finite number that is at least 0, or above 0 if `above`.
  Error readNumber(const json &value, const std::string &path, bool above,
                   double &into);
  Error readCount(const json &value, const std::string &path, int64_t most,
                  int64_t &into);
  Error readDevice(const json &value, ClusterDevice &device);
  Error readLevel(const json &value, const std::string &path,
                  ClusterLevel &level);

  std::string source;
};

Error ClusterReader::parse(StringRef text, json &root) {
  auto problem = parseJson(text, root);
  if (!problem)
    return Error::success();
  TextPosition at = getTextPosition(text, problem->offset);
  return llvm::createStringError(source + ":" + std::to_string(at.line) + ":" +
                                 std::to_string(at.column) + ": " +
                                 problem->message);
}

Error ClusterReader::checkKeys(const json &object, const std::string &path,
                               llvm::ArrayRef<StringRef> required,
                               llvm::ArrayRef<StringRef> optional) {
  if (!object.is_object())
    return error(path, "expected an object, got " + object.dump());
  for (const auto &[key, value] : object.items())
    if (!llvm::is_contained(required, key) &&
        !llvm::is_contained(optional, key)) {
      std::string known;
      for (StringRef name : required)
        known += (known.empty() ? "" : ", ") + name.str();
      for (StringRef name : optional)
        known += ", " + name.str();
      return error(llvm::Twine(path) + "." + key,
                   "unknown key, expected one of " + known);
    }
  for (StringRef key : required)
    if (!object.contains(key.str()))
      return error(path, "expected a \"" + key + "\"");
  return Error::success();
}

Error ClusterReader::readString(const json &value, const std::string &path,
                                std::string &into) {
  if (!value.is_string() || value.get<std::string>().empty())
    return error(path, "expected a name, got " + showJson(value));
  into = value.get<std::string>();
  return Error::success();
}

Error ClusterReader::readNumber(const json &value, const std::string &path,
                                bool above, double &into) {
  double number = value.is_number() ? value.get<double>() : NAN;
  if (!std::isfinite(number) || number < 0 || (above && number == 0))
    return error(path, Twine("expected a ") +
                           (above ? "positive number" : "number, 0 or more") +
                           ", got " + showJson(value));
  into = number;
  return Error::success();
}

Error ClusterReader::readCount(const json &value, const std::string &path,
                               int64_t most, int64_t &into) {
  // A float such as 80e9 is accepted, too, if it is a whole number.
  double number = value.is_number() ? value.get<double>() : NAN;
  if (!(number >= 1) || number > most || number != std::floor(number))
    return error(path, "expected a whole number from 1 to " + Twine(most) +
                           ", got " + showJson(value));
  into = value.is_number_float() ? int64_t(number) : value.get<int64_t>();
  return Error::success();
}

Error ClusterReader::readDevice(const json &value, ClusterDevice &device) {
  if (Error problem =
          checkKeys(value, "$.device",
                    {"kind", "memory", "memory_bandwidth", "peak"}, {"launch"}))
    return problem;
  if (Error problem = readString(value["kind"], "$.device.kind", device.kind))
    return problem;
  if (Error problem = readCount(value["memory"], "$.device.memory",
                                int64_t(1) << 50, device.memory))
    return problem;
  if (Error problem =
          readNumber(value["memory_bandwidth"], "$.device.memory_bandwidth",
                     /*above=*/true, device.memoryBandwidth))
    return problem;
  if (value.contains("launch"))
    if (Error problem = readNumber(value["launch"], "$.device.launch",
                                   /*above=*/false, device.launch))
      return problem;
  const json &peak = value["peak"];
  if (!peak.is_object() || peak.empty())
    return error("$.device.peak",
                 "expected an object of element types and operations a "
                 "second, got " +
                     peak.dump());
  for (const auto &[type, rate] : peak.items()) {
    static const StringRef known[] = {"f64",  "f32", "tf32", "f16",
                                      "bf16", "f8",  "i8"};
    if (!llvm::is_contained(known, type))
      return error("$.device.peak." + type,
                   "expected f64, f32, tf32, f16, bf16, f8 or i8");
    if (Error problem = readNumber(rate, "$.device.peak." + type,
                                   /*above=*/true, device.peak[type]))
      return problem;
  }
  return Error::success();
}

Error ClusterReader::readLevel(const json &value, const std::string &path,
                               ClusterLevel &level) {
  if (Error problem = checkKeys(
          value, path, {"name", "count", "latency", "bandwidth"}, {"links"}))
    return problem;
  if (Error problem = readString(value["name"], path + ".name", level.name))
    return problem;
  if (Error problem =
          readCount(value["count"], path + ".count", kMaxDevices, level.count))
    return problem;
  if (Error problem = readNumber(value["latency"], path + ".latency",
                                 /*above=*/false, level.latency))
    return problem;
  if (Error problem = readNumber(value["bandwidth"], path + ".bandwidth",
                                 /*above=*/true, level.bandwidth))
    return problem;
  if (value.contains("links"))
    return readCount(value["links"], path + ".links", kMaxDevices, level.links);
  return Error::success();
}

llvm::Expected<Cluster> ClusterReader::read(StringRef text) {
  json root;
  if (Error problem = parse(text, root))
    return std::move(problem);
  if (Error problem =
          checkKeys(root, "$", {"version", "name", "device", "levels"}, {}))
    return std::move(problem);
  if (root["version"] != 1)
    return error("$.version", "expected 1, got " + showJson(root["version"]));
  Cluster cluster;
  if (Error problem = readString(root["name"], "$.name", cluster.name))
    return std::move(problem);
  if (Error problem = readDevice(root["device"], cluster.device))
    return std::move(problem);
  if (!root["levels"].is_array())
    return error("$.levels", "expected a list of the topology's levels, "
                             "innermost first, got " +
                                 showJson(root["levels"]));
  int64_t devices = 1;
  for (const json &value : root["levels"]) {
    std::string path =
        "$.levels[" + std::to_string(cluster.levels.size()) + "]";
    ClusterLevel level;
    if (Error problem = readLevel(value, path, level))
      return std::move(problem);
    devices *= level.count;
    if (devices > kMaxDevices)
      return error(path + ".count", "expected at most " + Twine(kMaxDevices) +
                                        " devices in all, got " +
                                        Twine(devices));
    for (const ClusterLevel &other : cluster.levels)
      if (other.name == level.name)
        return error(path + ".name", "expected names that differ, got \"" +
                                         level.name + "\" twice");
    cluster.levels.push_back(std::move(level));
  }
  return cluster;
}

} // namespace

llvm::Expected<Cluster> heddle::parseCluster(StringRef text, StringRef source) {
  return ClusterReader(source).read(text);
}

/// Returns the shortest text that reads back as the same number.
static std::string number(double value) { return json(value).dump(); }
static std::string quoted(const std::string &text) { return json(text).dump(); }

std::string heddle::writeCluster(const Cluster &cluster) {
  const ClusterDevice &device = cluster.device;
  std::string text =
      "{\n  \"version\": 1,\n  \"name\": " + quoted(cluster.name) +
      ",\n  \"device\": {\n" + "    \"kind\": " + quoted(device.kind) + ",\n" +
      "    \"memory\": " + std::to_string(device.memory) +
      ",\n    \"memory_bandwidth\": " + number(device.memoryBandwidth) +
      ",\n    \"launch\": " + number(device.launch) + ",\n    \"peak\": {";
  std::string comma;
  for (const auto &[type, rate] : device.peak) {
    text += comma + quoted(type) + ": " + number(rate);
    comma = ", ";
  }
  text += "}\n  },\n  \"levels\": [";
  comma = "\n";
  for (const ClusterLevel &level : cluster.levels) {
    text += comma + "    {\"name\": " + quoted(level.name) +
            ", \"count\": " + std::to_string(level.count) +
            ", \"latency\": " + number(level.latency) +
            ", \"bandwidth\": " + number(level.bandwidth) +
            ", \"links\": " + std::to_string(level.links) + "}";
    comma = ",\n";
  }
  return text + (cluster.levels.empty() ? "]\n}\n" : "\n  ]\n}\n");
}
