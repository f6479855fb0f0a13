//===- ProfileJson.cpp - Reading and writing profiles ---------------------===//

#include "heddle/Profile/ProfiledCostModel.h"
#include "heddle/Support/JsonReader.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>

using namespace heddle;
using llvm::StringRef;
using Json = nlohmann::json;

/// Returns the names of all kinds of communication; empty if `name` is one.
static std::string listUnless(StringRef name) {
  std::string names;
  for (auto kind = CommunicationKind::AllReduce;;
       kind = CommunicationKind(int(kind) + 1)) {
    if (getName(kind) == name)
      return "";
    names += (names.empty() ? "" : ", ") + getName(kind).str();
    if (kind == CommunicationKind::Transfer)
      return names;
  }
}

namespace {
class ProfileReader : JsonReader {
public:
  explicit ProfileReader(StringRef source) : JsonReader(source.str()) {}

  llvm::Expected<Profile> read(StringRef text) {
    Json root = parse(text);
    if (std::string other = describeOtherKind(root, "machines",
                                              "a profile (of heddle profile)");
        !other.empty())
      fail("$", other);
    checkKeys(root, "$", {"version", "machines"});
    if (!hasProblem() && root["version"] != 1)
      fail("$.version", "expected 1, got " + showJson(root["version"]));
    Profile profile;
    each(root, "$", "machines", [&](const Json &value, const std::string &at) {
      MachineProfile machine = readMachine(value, at);
      for (const MachineProfile &other : profile.machines)
        if (other.isSameMachine(machine))
          fail(at, "expected each machine with each number of ranks once");
      profile.machines.push_back(std::move(machine));
    });
    if (hasProblem())
      return llvm::createStringError(problem);
    return profile;
  }

private:
  int64_t readCount(const Json &value, const std::string &path, int64_t least) {
    if (value.is_number_integer() && value.get<int64_t>() >= least)
      return value.get<int64_t>();
    fail(path, "expected a whole number of at least " + std::to_string(least) +
                   ", got " + showJson(value));
    return least;
  }
  int64_t readCount(const Json &object, const std::string &path,
                    const char *key, int64_t least) {
    return hasProblem() ? least
                        : readCount(object[key], path + "." + key, least);
  }
  double readSeconds(const Json &value, const std::string &path) {
    if (value.is_number() && value.get<double>() >= 0)
      return value.get<double>();
    fail(path, "expected a number of at least 0, got " + showJson(value));
    return 0;
  }
  double readSeconds(const Json &object, const std::string &path,
                     const char *key) {
    return hasProblem() ? 0 : readSeconds(object[key], path + "." + key);
  }

  MachineProfile readMachine(const Json &value, const std::string &path) {
    MachineProfile machine;
    checkKeys(value, path,
              {"kind", "cores", "ranks", "gap", "wake", "start", "operators",
               "collectives"});
    machine.kind = readText(value, path, "kind");
    machine.cores = readCount(value, path, "cores", 1);
    machine.ranks = readCount(value, path, "ranks", 1);
    machine.gap = readSeconds(value, path, "gap");
    machine.wake = readSeconds(value, path, "wake");
    machine.start = readSeconds(value, path, "start");
    each(value, path, "operators", [&](const Json &value, std::string at) {
      checkKeys(value, at,
                {"call", "type", "flops", "bytes", "seconds", "samples"},
                {"beside"});
      OperatorTime time;
      std::string key = readText(value, at, "call");
      time.type = readText(value, at, "type");
      time.flops = readCount(value, at, "flops", 0);
      time.bytes = readCount(value, at, "bytes", 0);
      time.seconds = readSeconds(value, at, "seconds");
      if (!hasProblem() && time.seconds == 0)
        fail(at + ".seconds", "expected a number above 0, got 0");
      time.samples = readCount(value, at, "samples", 1);
      if (!hasProblem() && value.contains("beside"))
        time.beside = readSeconds(value, at, "beside");
      if (!machine.operators.try_emplace(key, time).second)
        fail(at + ".call",
             "expected each call once, got " + showJson(Json(key)) + " twice");
    });
    each(value, path, "collectives", [&](const Json &value, std::string at) {
      checkKeys(value, at, {"kind", "members", "links", "times"});
      CollectiveKey key;
      key.kind = readText(value, at, "kind");
      if (std::string names = listUnless(key.kind);
          !hasProblem() && !names.empty())
        fail(at + ".kind",
             "expected one of " + names + ", got '" + key.kind + "'");
      key.members = readCount(value, at, "members", 1);
      each(value, at, "links", [&](const Json &link, std::string at) {
        checkKeys(link, at, {"latency", "bandwidth"});
        double latency = readSeconds(link, at, "latency");
        key.links.emplace_back(latency, readSeconds(link, at, "bandwidth"));
      });
      MessageTimes times;
      each(value, at, "times", [&](const Json &time, std::string at) {
        checkKeys(time, at, {"bytes", "seconds"});
        int64_t bytes = readCount(time, at, "bytes", 0);
        times[bytes] = readSeconds(time, at, "seconds");
      });
      if (!machine.collectives.try_emplace(key, times).second)
        fail(at, "expected each collective once");
    });
    return machine;
  }
};
} // namespace

llvm::Expected<Profile> heddle::parseProfile(StringRef text, StringRef source) {
  return ProfileReader(source).read(text);
}

llvm::Expected<Profile> heddle::loadProfile(StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return llvm::createStringError("cannot read '" + path +
                                   "': " + file.getError().message());
  return parseProfile((*file)->getBuffer(), path);
}

//===----------------------------------------------------------------------===//
// Writing: one line a measurement
//===----------------------------------------------------------------------===//

/// Returns the shortest text that reads back as the same number.
static std::string number(double value) { return Json(value).dump(); }
static std::string quoted(const std::string &text) { return Json(text).dump(); }

static std::string writeOperator(const std::string &key,
                                 const OperatorTime &time) {
  std::string text = "{\"call\": " + quoted(key) +
                     ", \"type\": " + quoted(time.type) +
                     ", \"flops\": " + std::to_string(time.flops) +
                     ", \"bytes\": " + std::to_string(time.bytes) +
                     ", \"seconds\": " + number(time.seconds);
  if (time.beside > 0)
    text += ", \"beside\": " + number(time.beside);
  return text + ", \"samples\": " + std::to_string(time.samples) + "}";
}

static std::string writeCollective(const CollectiveKey &key,
                                   const MessageTimes &times) {
  std::string text = "{\"kind\": " + quoted(key.kind) +
                     ", \"members\": " + std::to_string(key.members) +
                     ", \"links\": [";
  StringRef comma = "";
  for (auto [latency, bandwidth] : key.links) {
    text += (comma + "{\"latency\": " + number(latency) +
             ", \"bandwidth\": " + number(bandwidth) + "}")
                .str();
    comma = ", ";
  }
  text += "],\n       \"times\": [";
  comma = "";
  for (auto [bytes, seconds] : times) {
    text += (comma + "{\"bytes\": " + std::to_string(bytes) +
             ", \"seconds\": " + number(seconds) + "}")
                .str();
    comma = ",\n                 ";
  }
  return text + "]}";
}

std::string heddle::writeProfile(const Profile &profile) {
  std::string text = "{\n  \"version\": 1,\n  \"machines\": [";
  std::string comma = "\n";
  auto lines = [&](const auto &values, auto write) {
    std::string list, separator = "\n";
    for (const auto &[key, value] : values) {
      list += separator + "      " + write(key, value);
      separator = ",\n";
    }
    return "[" + list + (values.empty() ? "]" : "\n    ]");
  };
  for (const MachineProfile &machine : profile.machines) {
    text += comma + "    {\n      \"kind\": " + quoted(machine.kind) +
            ",\n      \"cores\": " + std::to_string(machine.cores) +
            ",\n      \"ranks\": " + std::to_string(machine.ranks) +
            ",\n      \"gap\": " + number(machine.gap) +
            ",\n      \"wake\": " + number(machine.wake) +
            ",\n      \"start\": " + number(machine.start) +
            ",\n    \"operators\": " + lines(machine.operators, writeOperator) +
            ",\n    \"collectives\": " +
            lines(machine.collectives, writeCollective) + "\n    }";
    comma = ",\n";
  }
  return text + (profile.machines.empty() ? "]\n}\n" : "\n  ]\n}\n");
}
