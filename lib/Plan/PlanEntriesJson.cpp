//===- PlanEntriesJson.cpp - Sections of a plan with globs as keys --------===//

#include "PlanReader.h"
#include "heddle/Support/JsonText.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace heddle;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;
using json = PlanReader::Json;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Error PlanReader::readAxes(const json &value, const std::string &path,
                           size_t from, const Plan &plan,
                           std::vector<std::string> &axes) {
  if (!value.is_array())
    return error(from, path,
                 "expected a list of mesh axes, got " + showJson(value));
  for (const json &axis : value) {
    if (!axis.is_string())
      return error(from, path,
                   "expected the name of a mesh axis, got " + showJson(axis));
    std::string name = axis.get<std::string>();
    std::vector<std::string> parts = {name};
    for (const PlanProduct &product : plan.products)
      if (product.name == name)
        parts = product.axes;
    for (const std::string &part : parts) {
      if (llvm::is_contained(axes, part))
        return error(locate(name, from), path,
                     "expected each axis once, got \"" + part + "\" twice");
      axes.push_back(part);
    }
  }
  return Error::success();
}

/// Reads a key. Returns an empty text, or what was expected in its place.
static StringRef parseKey(const std::string &text, std::string &factor) {
  factor = text;
  return "";
}

static StringRef parseKey(const std::string &text, unsigned &dim) {
  // "00" would be a second key for dimension 0.
  bool isIndex =
      !StringRef(text).getAsInteger(10, dim) && text == std::to_string(dim);
  return isIndex ? "" : "the index of a dimension";
}

template <typename KeyT>
Error PlanReader::readEntries(const json &value, StringRef section, size_t from,
                              const Plan &plan,
                              std::vector<PlanEntry<KeyT>> &entries) {
  if (!value.is_object())
    return error(from, getPlanPath(section, ""),
                 "expected an object of globs, got " + showJson(value));
  auto readEntry = [&](const std::string &glob, const json &body) -> Error {
    PlanEntry<KeyT> entry;
    entry.glob = glob;
    size_t at = locate(glob, from);
    entry.position = position(at);
    if (glob.empty())
      return error(at, getPlanPath(section, ""), "expected a glob, got \"\"");
    if (!body.is_object())
      return error(at, getPlanPath(section, glob),
                   "expected an object, got " + showJson(body));
    for (const auto &[key, axes] : body.items()) {
      PlanAssignment<KeyT> assignment;
      size_t keyAt = locate(key, at + glob.size());
      assignment.position = position(keyAt);
      std::string path = getPlanPath(section, glob, key);
      if (StringRef expected = parseKey(key, assignment.key); !expected.empty())
        return error(keyAt, path,
                     "expected " + expected + ", got \"" + key + "\"");
      if (Error failure = readAxes(axes, path, keyAt, plan, assignment.axes))
        return failure;
      entry.assignments.push_back(std::move(assignment));
    }
    entries.push_back(std::move(entry));
    return Error::success();
  };
  Error problems = Error::success();
  for (const auto &[glob, body] : value.items())
    problems = llvm::joinErrors(std::move(problems), readEntry(glob, body));
  return problems;
}

Error PlanReader::readSplit(const json &body, const std::string &path,
                            size_t from, PlanSplit &split) {
  if (!body.is_object())
    return error(from, path,
                 "expected an object with \"slices\", got " + showJson(body));
  for (const auto &[key, number] : body.items()) {
    size_t at = locate(key, from);
    bool isSlices = key == "slices";
    if (!isSlices && key != "sharded")
      return error(at, path,
                   "unknown key \"" + key + "\": expected slices or sharded");
    int64_t least = isSlices ? 2 : 0;
    if (!number.is_number_integer() || number.get<int64_t>() < least ||
        number.get<int64_t>() > (int64_t(1) << 20))
      return error(at, (Twine(path) + "." + key).str(),
                   (isSlices ? "expected a number of slices of at least 2, got "
                             : "expected a number of slices, got ") +
                       showJson(number));
    (isSlices ? split.slices : split.sharded.emplace()) = number.get<int64_t>();
  }
  if (!body.contains("slices"))
    return error(from, path, "expected \"slices\"");
  if (split.sharded && *split.sharded > split.slices)
    return error(locate("sharded", from), path + ".sharded",
                 "expected at most " + std::to_string(split.slices) +
                     ", the number of slices, got " +
                     std::to_string(*split.sharded));
  return Error::success();
}

Error PlanReader::readSplits(const json &value, size_t from, Plan &plan) {
  if (!value.is_object())
    return error(from, "$.splits",
                 "expected an object of globs, got " + showJson(value));
  for (const auto &[glob, body] : value.items()) {
    size_t at = locate(glob, from);
    std::string path = getPlanPath("splits", glob);
    if (glob.empty())
      return error(at, "$.splits", "expected a glob, got \"\"");
    if (!body.is_object() || body.size() != 1)
      return error(at, path,
                   "expected an object of one factor, got " + showJson(body));
    PlanSplit split;
    split.glob = glob;
    split.factor = body.begin().key();
    size_t factorAt = locate(split.factor, at + glob.size());
    split.position = position(factorAt);
    if (Error failure = readSplit(body.begin().value(),
                                  getPlanPath("splits", glob, split.factor),
                                  factorAt, split))
      return failure;
    plan.splits.push_back(std::move(split));
  }
  return Error::success();
}

Error PlanReader::readPriorities(const json &value, size_t from, Plan &plan) {
  if (!value.is_object())
    return error(from, "$.priorities",
                 "expected an object of globs, got " + showJson(value));
  for (const auto &[glob, number] : value.items()) {
    size_t at = locate(glob, from);
    if (glob.empty())
      return error(at, "$.priorities", "expected a glob, got \"\"");
    if (!number.is_number_unsigned() ||
        number.get<uint64_t>() > uint64_t(kMaxPlanPriority))
      return error(at, getPlanPath("priorities", glob),
                   "expected a number from 0 to " +
                       std::to_string(kMaxPlanPriority) + ", got " +
                       showJson(number));
    plan.priorities.push_back({glob, number.get<int64_t>(), position(at)});
  }
  return Error::success();
}

Error PlanReader::readSections(const json &root, Plan &plan) {
  Error problems = Error::success();
  auto add = [&](Error problem) {
    problems = llvm::joinErrors(std::move(problems), std::move(problem));
  };
  auto readSection = [&](StringRef section, auto &entries) {
    std::string key = section.str();
    if (root.contains(key))
      add(readEntries(root[key], section, locate(section, 0), plan, entries));
  };
  readSection("operators", plan.operators);
  readSection("storage", plan.storage);
  readSection("pins", plan.pins);
  if (root.contains("splits"))
    add(readSplits(root["splits"], locate("splits", 0), plan));
  if (root.contains("priorities"))
    add(readPriorities(root["priorities"], locate("priorities", 0), plan));
  return problems;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static std::string writeKey(const std::string &factor) { return factor; }
static std::string writeKey(unsigned dim) { return std::to_string(dim); }

/// Writes a section as one line for each glob, sorted.
template <typename KeyT>
static std::string writeEntries(const std::vector<PlanEntry<KeyT>> &entries) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> sorted;
  for (const PlanEntry<KeyT> &entry : entries) {
    auto &body = sorted[entry.glob];
    for (const PlanAssignment<KeyT> &assignment : entry.assignments)
      body[writeKey(assignment.key)] = assignment.axes;
  }
  std::string text = "{", separator = "\n";
  for (const auto &[glob, body] : sorted) {
    text += separator + "    " + json(glob).dump() + ": {";
    std::string comma;
    for (const auto &[key, axes] : body) {
      text += comma + json(key).dump() + ": [";
      comma = ", ";
      for (size_t i = 0; i < axes.size(); ++i)
        text += (i ? ", " : "") + json(axes[i]).dump();
      text += "]";
    }
    text += "}";
    separator = ",\n";
  }
  return text + (sorted.empty() ? "}" : "\n  }");
}

/// Writes a section from its lines, keyed by glob.
static std::string writeLines(const std::map<std::string, std::string> &lines) {
  std::string text = "{", separator = "\n";
  for (const auto &[glob, line] : lines) {
    text.append(separator).append("    ").append(json(glob).dump());
    text.append(": ").append(line);
    separator = ",\n";
  }
  return text + "\n  }";
}

static std::string writeSplits(llvm::ArrayRef<PlanSplit> splits) {
  std::map<std::string, std::string> lines;
  for (const PlanSplit &split : splits)
    lines[split.glob] =
        "{" + json(split.factor).dump() +
        ": {\"slices\": " + std::to_string(split.slices) +
        (split.sharded ? ", \"sharded\": " + std::to_string(*split.sharded)
                       : "") +
        "}}";
  return writeLines(lines);
}

static std::string writePriorities(llvm::ArrayRef<PlanPriority> priorities) {
  std::map<std::string, std::string> lines;
  for (const PlanPriority &entry : priorities)
    lines[entry.glob] = std::to_string(entry.priority);
  return writeLines(lines);
}
std::string heddle::writeSections(const Plan &plan) {
  std::string text = ",\n  \"operators\": " + writeEntries(plan.operators);
  text += ",\n  \"storage\": " + writeEntries(plan.storage);
  if (!plan.splits.empty())
    text += ",\n  \"splits\": " + writeSplits(plan.splits);
  if (!plan.pins.empty())
    text += ",\n  \"pins\": " + writeEntries(plan.pins);
  if (!plan.priorities.empty())
    text += ",\n  \"priorities\": " + writePriorities(plan.priorities);
  return text;
}
