//===- PlanJson.cpp - Reading and writing plans ---------------------------===//

#include "PredictionJson.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Stages/StageSchedule.h"
#include "heddle/Support/JsonText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Errc.h"
#include "llvm/Support/MemoryBuffer.h"
#include <map>
#include <nlohmann/json.hpp>

using namespace heddle;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;
using json = nlohmann::ordered_json; // the mesh's order has a meaning

char PlanError::ID;

void PlanError::log(llvm::raw_ostream &stream) const {
  stream << source << ":" << position.line << ":" << position.column << ": "
         << message;
}

std::error_code PlanError::convertToErrorCode() const {
  return llvm::make_error_code(llvm::errc::invalid_argument);
}

namespace {

/// Reads the text of one plan. The JSON library gives no positions of keys, so
/// the reader searches the text for a key, starting at the position of its
/// parent.
class PlanReader {
public:
  PlanReader(StringRef text, StringRef source) : text(text), source(source) {}

  llvm::Expected<Plan> read();

private:
  Error error(size_t offset, StringRef path, const Twine &message) {
    PlanPosition at = position(offset);
    std::string where = path.empty() ? "" : path.str() + ": ";
    return llvm::make_error<PlanError>(source.empty() ? "plan" : source.str(),
                                       at, where + message.str());
  }
  PlanPosition position(size_t offset) {
    TextPosition at = getTextPosition(text, offset);
    return {at.line, at.column};
  }
  /// Returns the offset of the key, searched from `from` on; `from` if the text
  /// lacks the key.
  size_t locate(StringRef key, size_t from) {
    size_t found = text.find(json(key.str()).dump(), from);
    return found == StringRef::npos ? from : found;
  }

  Error parseText(json &root);
  Error readMesh(const json &value, size_t from, Plan &plan);
  template <typename KeyT>
  Error readEntries(const json &value, StringRef section, size_t from,
                    const Plan &plan, std::vector<PlanEntry<KeyT>> &entries);
  Error readSplits(const json &value, size_t from, Plan &plan);
  Error readStages(const json &value, size_t from, Plan &plan);
  Error readPipeline(const json &root, Plan &plan);
  Error readScheduleName(const json &value, size_t from, Plan &plan);
  Error readScheduleTable(const json &value, size_t from, Plan &plan);
  Error readPriorities(const json &value, size_t from, Plan &plan);
  Error readSplit(const json &body, const std::string &path, size_t from,
                  PlanSplit &split);
  Error readAxes(const json &value, const std::string &path, size_t from,
                 const Plan &plan, std::vector<std::string> &axes);

  StringRef text, source;
};

Error PlanReader::parseText(json &root) {
  if (auto problem = parseJson(text, root))
    return error(problem->offset, "", problem->message);
  if (!root.is_object())
    return error(0, "", "expected an object");
  return Error::success();
}

Error PlanReader::readMesh(const json &value, size_t from, Plan &plan) {
  if (!value.is_object())
    return error(from, "$.mesh", "expected an object of axis names and sizes");
  for (const auto &[name, size] : value.items()) {
    size_t at = locate(name, from);
    std::string path = "$.mesh." + name;
    if (name.empty())
      return error(at, "$.mesh", "expected an axis to have a name");
    json sizes = size.is_array() ? size : json::array({size});
    std::vector<int64_t> parts;
    int64_t devices = plan.getNumDevices();
    for (const json &part : sizes) {
      if (!part.is_number_integer() || part.get<int64_t>() < 1)
        return error(at, path,
                     "expected a positive number of devices, got " +
                         showJson(part));
      if (part.get<int64_t>() > kMaxPlanDevices / devices)
        return error(at, path,
                     "expected a mesh of at most " +
                         std::to_string(kMaxPlanDevices) +
                         " devices in all, got an axis of " + showJson(part));
      parts.push_back(part.get<int64_t>());
      devices *= parts.back();
    }
    if (parts.empty())
      return error(at, path, "expected the sizes of an axis' parts, got []");
    for (const std::string &axis : plan.addAxes(name, parts))
      if (llvm::count_if(plan.mesh, [&](const PlanAxis &other) {
            return other.name == axis;
          }) > 1)
        return error(at, path,
                     "expected each axis once, got \"" + axis + "\" twice");
  }
  return Error::success();
}

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
    if (!plan.getAxisSize(parts.front())) {
      std::string known;
      for (const PlanAxis &other : plan.mesh)
        known += (known.empty() ? "\"" : ", \"") + other.name + "\"";
      return error(locate(name, from), path,
                   "expected an axis of the mesh (" +
                       (known.empty() ? "it has none" : known) + "), got \"" +
                       name + "\"");
    }
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

static std::string writeKey(const std::string &factor) { return factor; }
static std::string writeKey(unsigned dim) { return std::to_string(dim); }

template <typename KeyT>
Error PlanReader::readEntries(const json &value, StringRef section, size_t from,
                              const Plan &plan,
                              std::vector<PlanEntry<KeyT>> &entries) {
  if (!value.is_object())
    return error(from, getPlanPath(section, ""),
                 "expected an object of globs, got " + showJson(value));
  for (const auto &[glob, body] : value.items()) {
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
  }
  return Error::success();
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

Error PlanReader::readStages(const json &value, size_t from, Plan &plan) {
  plan.stagesPosition = position(from);
  if (value.is_number_unsigned() && value.get<uint64_t>() >= 1 &&
      value.get<uint64_t>() <= uint64_t(kMaxPlanDevices)) {
    plan.numStages = value.get<int64_t>();
    return Error::success();
  }
  if (!value.is_array() || value.empty())
    return error(from, "$.stages",
                 "expected a number of stages, or a list with the globs of "
                 "each, got " +
                     showJson(value));
  for (const json &element : value) {
    PlanStage &stage = plan.stages.emplace_back();
    std::vector<json> globs = {element};
    if (element.is_array())
      globs.assign(element.begin(), element.end());
    for (const json &glob : globs) {
      if (!glob.is_string() || glob.get<std::string>().empty())
        return error(from, "$.stages",
                     "expected a glob of operators, or a list of globs, for "
                     "each stage, got " +
                         showJson(element));
      stage.globs.push_back(glob.get<std::string>());
    }
    stage.position = position(
        stage.globs.empty() ? from : locate(stage.globs.front(), from));
  }
  plan.numStages = int64_t(plan.stages.size());
  return Error::success();
}

Error PlanReader::readScheduleName(const json &value, size_t from, Plan &plan) {
  std::optional<PipelineSchedule> schedule =
      value.is_string() ? parseScheduleName(value.get<std::string>())
                        : std::nullopt;
  if (!schedule)
    return error(from, "$.pipeline",
                 "expected one of " + listScheduleNames() +
                     ", or a table such as {\"devices\": [[\"F0.0\", ...], "
                     "...]}, got " +
                     showJson(value));
  plan.schedule = *schedule;
  plan.numStages =
      plan.getAxisSize(kPipelineAxis) * (hasChunks(plan.schedule) ? 2 : 1);
  plan.stagesPosition = position(from);
  return Error::success();
}

Error PlanReader::readScheduleTable(const json &value, size_t from,
                                    Plan &plan) {
  plan.scheduleTable = value.dump();
  plan.stagesPosition = position(from);
  llvm::Expected<StageSchedule> schedule =
      parseSchedule(plan.scheduleTable, "$.pipeline", 0);
  if (!schedule)
    return error(from, "", llvm::toString(schedule.takeError()));
  plan.numStages = schedule->getNumStages();
  return Error::success();
}

Error PlanReader::readPipeline(const json &root, Plan &plan) {
  int64_t devices = plan.getAxisSize(kPipelineAxis);
  if (root.contains("pipeline")) {
    const json &value = root["pipeline"];
    size_t at = locate("pipeline", 0);
    if (value.is_object()) {
      if (Error failure = readScheduleTable(value, at, plan))
        return failure;
    } else if (Error failure = readScheduleName(value, at, plan)) {
      return failure;
    }
  }
  if (root.contains("stages"))
    if (Error failure = readStages(root["stages"], locate("stages", 0), plan))
      return failure;
  for (StringRef key : {"stages", "pipeline"})
    if (root.contains(key.str()) && devices == 0)
      return error(locate(key, 0), "$." + key.str(),
                   "expected a mesh with the axis \"pp\", over which the "
                   "stages of a pipeline lie");
  return Error::success();
}

llvm::Expected<Plan> PlanReader::read() {
  json root;
  if (Error failure = parseText(root))
    return std::move(failure);
  const std::string known[] = {
      "version",     "mesh",      "operators",       "storage",
      "splits",      "pins",      "priorities",      "hierarchy",
      "overlap",     "stages",    "pipeline",        "reduce_gradients",
      "sub_batches", "recompute", "recompute_bytes", "prediction"};
  for (const auto &[key, value] : root.items())
    if (!llvm::is_contained(known, key)) {
      StringRef nearest = findNearestName(key, known);
      return error(
          locate(key, 0), "$",
          "unknown key \"" + key + "\"" +
              (nearest.empty()
                   ? std::string(": expected version, mesh, "
                                 "operators, storage, splits, pins, "
                                 "priorities, hierarchy, "
                                 "reduce_gradients, sub_batches, "
                                 "recompute, recompute_bytes, overlap, stages, "
                                 "pipeline or prediction")
                   : ", did you mean \"" + nearest.str() + "\"?"));
    }
  if (!root.contains("version"))
    return error(0, "$", "expected a \"version\"");
  if (root["version"] != 1)
    return error(locate("version", 0), "$.version",
                 "expected 1, got " + showJson(root["version"]));
  if (!root.contains("mesh"))
    return error(0, "$", "expected a \"mesh\"");
  Plan plan;
  plan.source = source.str();
  if (Error failure = readMesh(root["mesh"], locate("mesh", 0), plan))
    return std::move(failure);
  auto readSection = [&](StringRef section, auto &entries) -> Error {
    std::string key = section.str();
    if (!root.contains(key))
      return Error::success();
    return readEntries(root[key], section, locate(section, 0), plan, entries);
  };
  if (Error failure = readSection("operators", plan.operators))
    return std::move(failure);
  if (Error failure = readSection("storage", plan.storage))
    return std::move(failure);
  if (Error failure = readSection("pins", plan.pins))
    return std::move(failure);
  if (root.contains("splits"))
    if (Error failure = readSplits(root["splits"], locate("splits", 0), plan))
      return std::move(failure);
  if (root.contains("priorities"))
    if (Error failure =
            readPriorities(root["priorities"], locate("priorities", 0), plan))
      return std::move(failure);
  if (root.contains("hierarchy")) {
    const json &value = root["hierarchy"];
    std::optional<Hierarchy> hierarchy =
        value.is_string() ? symbolizeHierarchy(value.get<std::string>())
                          : std::nullopt;
    if (!hierarchy)
      return error(locate("hierarchy", 0), "$.hierarchy",
                   "expected \"auto\", \"always\" or \"never\", got " +
                       showJson(value));
    plan.hierarchy = *hierarchy;
  }
  if (root.contains("reduce_gradients")) {
    const json &value = root["reduce_gradients"];
    std::optional<GradientReduction> reduction =
        value.is_string() ? symbolizeGradientReduction(value.get<std::string>())
                          : std::nullopt;
    if (!reduction)
      return error(locate("reduce_gradients", 0), "$.reduce_gradients",
                   "expected \"step\" or \"micro_batch\", got " +
                       showJson(value));
    plan.reduceGradients = *reduction;
  }
  if (root.contains("sub_batches")) {
    const json &value = root["sub_batches"];
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 ||
        value.get<uint64_t>() > uint64_t(kMaxSubBatches))
      return error(locate("sub_batches", 0), "$.sub_batches",
                   "expected a number from 1 to " +
                       std::to_string(kMaxSubBatches) + ", got " +
                       showJson(value));
    plan.subBatches = value.get<int64_t>();
  }
  if (root.contains("recompute")) {
    const json &value = root["recompute"];
    if (value.is_string())
      plan.recompute = parseRecomputeMode(value.get<std::string>());
    if (!plan.recompute)
      return error(locate("recompute", 0), "$.recompute",
                   "expected \"none\", \"layer\", \"communication\" or "
                   "\"optimal\", got " +
                       showJson(value));
  }
  if (root.contains("recompute_bytes")) {
    const json &value = root["recompute_bytes"];
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 ||
        value.get<uint64_t>() > uint64_t(kMaxRecomputeBytes))
      return error(locate("recompute_bytes", 0), "$.recompute_bytes",
                   "expected a positive number of bytes, got " +
                       showJson(value));
    if (plan.recompute != RecomputeMode::Optimal)
      return error(locate("recompute_bytes", 0), "$.recompute_bytes",
                   "expected \"recompute\": \"optimal\" beside it");
    plan.recomputeBytes = value.get<int64_t>();
  }
  if (root.contains("overlap")) {
    const json &value = root["overlap"];
    const NamedSchedule *schedule =
        value.is_string() ? findNamedSchedule(value.get<std::string>())
                          : nullptr;
    if (!schedule) {
      std::string names;
      for (const NamedSchedule &known : getNamedSchedules())
        names += (names.empty() ? "" : ", ") + json(known.name.str()).dump();
      return error(locate("overlap", 0), "$.overlap",
                   "expected one of " + names + ", got " + showJson(value));
    }
    plan.overlap = schedule->overlap;
  }
  if (Error failure = readPipeline(root, plan))
    return std::move(failure);
  if (root.contains("prediction")) {
    size_t at = locate("prediction", 0);
    if (auto problem =
            readPrediction(root["prediction"], plan.prediction.emplace()))
      return error(locate(problem->key, at), problem->path, problem->message);
  }
  return plan;
}

} // namespace

llvm::Expected<Plan> heddle::parsePlan(StringRef text, StringRef source) {
  return PlanReader(text, source).read();
}

llvm::Expected<Plan> heddle::readPlanFile(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return llvm::createStringError(buffer.getError(),
                                   path + ": " + buffer.getError().message());
  return parsePlan((*buffer)->getBuffer(), path);
}

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

static std::string writeStages(const Plan &plan) {
  if (plan.stages.empty())
    return std::to_string(plan.numStages);
  json list = json::array();
  for (const PlanStage &stage : plan.stages) {
    if (stage.globs.size() == 1)
      list.push_back(stage.globs.front());
    else
      list.push_back(stage.globs);
  }
  return list.dump();
}

std::string heddle::writePlan(const Plan &plan) {
  std::string text = "{\n  \"version\": 1,\n  \"mesh\": {";
  for (size_t i = 0; i < plan.mesh.size(); ++i)
    text += (i ? ", " : "") + json(plan.mesh[i].name).dump() + ": " +
            std::to_string(plan.mesh[i].size);
  text += "},\n  \"operators\": " + writeEntries(plan.operators);
  text += ",\n  \"storage\": " + writeEntries(plan.storage);
  if (!plan.splits.empty())
    text += ",\n  \"splits\": " + writeSplits(plan.splits);
  if (!plan.pins.empty())
    text += ",\n  \"pins\": " + writeEntries(plan.pins);
  if (!plan.priorities.empty())
    text += ",\n  \"priorities\": " + writePriorities(plan.priorities);
  if (plan.reduceGradients != GradientReduction::Step)
    text += ",\n  \"reduce_gradients\": " +
            json(stringifyGradientReduction(plan.reduceGradients).str()).dump();
  if (plan.hierarchy != Hierarchy::Auto)
    text += ",\n  \"hierarchy\": " +
            json(stringifyHierarchy(plan.hierarchy).str()).dump();
  if (plan.subBatches)
    text += ",\n  \"sub_batches\": " + std::to_string(*plan.subBatches);
  if (plan.recompute)
    text += ",\n  \"recompute\": " +
            json(stringifyRecomputeMode(*plan.recompute).str()).dump();
  if (plan.recomputeBytes)
    text += ",\n  \"recompute_bytes\": " + std::to_string(*plan.recomputeBytes);
  if (plan.overlap != Overlap::None)
    text += ",\n  \"overlap\": " +
            json(getNamedSchedule(plan.overlap).name.str()).dump();
  if (plan.numStages != 0) {
    text += ",\n  \"stages\": " + writeStages(plan);
    text += ",\n  \"pipeline\": " +
            (plan.scheduleTable.empty()
                 ? json(getScheduleName(plan.schedule).str()).dump()
                 : plan.scheduleTable);
  }
  if (plan.prediction)
    text += ",\n  \"prediction\": " + writePrediction(*plan.prediction);
  return text + "\n}\n";
}
