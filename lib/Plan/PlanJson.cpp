//===- PlanJson.cpp - Reading and writing plans ---------------------------===//

#include "PlanReader.h"
#include "PredictionJson.h"
#include "heddle/Support/JsonText.h"
#include "llvm/Support/Errc.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace heddle;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;
using json = PlanReader::Json;

char PlanError::ID;

void PlanError::log(llvm::raw_ostream &stream) const {
  stream << source << ":" << position.line << ":" << position.column << ": "
         << message;
  // Leaves out a long line, because a plan may be a text of one line.
  constexpr size_t kLongest = 120;
  if (!line.empty() && line.size() <= kLongest)
    stream << "\n"
           << line << "\n"
           << std::string(std::max(1u, position.column) - 1, ' ') << "^";
}

std::error_code PlanError::convertToErrorCode() const {
  return llvm::make_error_code(llvm::errc::invalid_argument);
}

Error PlanReader::error(size_t offset, StringRef path, const Twine &message) {
  std::string where = path.empty() ? "" : path.str() + ": ";
  PlanPosition at = position(offset);
  StringRef line = text.substr(offset - std::min(offset, size_t(at.column - 1)))
                       .take_until([](char c) { return c == '\n'; });
  return llvm::make_error<PlanError>(source.empty() ? "plan" : source.str(), at,
                                     where + message.str(), line.str());
}

PlanPosition PlanReader::position(size_t offset) {
  TextPosition at = getTextPosition(text, offset);
  return {at.line, at.column};
}

size_t PlanReader::locate(StringRef key, size_t from) {
  size_t found = text.find(json(key.str()).dump(), from);
  return found == StringRef::npos ? from : found;
}

Error PlanReader::parseText(json &root) {
  if (auto problem = parseJson(text, root))
    return error(problem->offset, "", problem->message);
  if (!root.is_object())
    return error(0, "", "expected an object");
  if (std::string other = describeOtherKind(root, "mesh", "a plan");
      !isPart && !other.empty())
    return error(0, "$", other);
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

Error PlanReader::checkKeys(const json &root) {
  const std::string known[] = {
      "version",         "mesh",        "operators",
      "storage",         "splits",      "pins",
      "priorities",      "hierarchy",   "overlap",
      "stages",          "pipeline",    "reduce_gradients",
      "sub_batches",     "recompute",   "recompute_bytes",
      "exchange_chunks", "prediction",  "pipeline_barrier",
      "exchange_ring",   "scatter_sums"};
  Error problems = Error::success();
  for (const auto &[key, value] : root.items())
    if (!llvm::is_contained(known, key)) {
      StringRef nearest = findNearestName(key, known);
      problems = llvm::joinErrors(
          std::move(problems),
          error(locate(key, 0), "$",
                "unknown key \"" + key + "\"" +
                    (nearest.empty()
                         ? std::string(
                               ": expected version, mesh, "
                               "operators, storage, splits, pins, "
                               "priorities, hierarchy, "
                               "reduce_gradients, sub_batches, "
                               "recompute, recompute_bytes, "
                               "exchange_chunks, exchange_ring, scatter_sums, "
                               "overlap, stages, "
                               "pipeline, pipeline_barrier or "
                               "prediction")
                         : ", did you mean \"" + nearest.str() + "\"?")));
    }
  auto add = [&](Error problem) {
    problems = llvm::joinErrors(std::move(problems), std::move(problem));
  };
  if (!root.contains("version"))
    add(error(0, "$", "expected a \"version\""));
  else if (root["version"] != 1)
    add(error(locate("version", 0), "$.version",
              "expected 1, got " + showJson(root["version"])));
  if (!isPart && !root.contains("mesh"))
    add(error(0, "$", "expected a \"mesh\""));
  return problems;
}

llvm::Expected<Plan> PlanReader::read() {
  json root;
  if (Error failure = parseText(root))
    return std::move(failure);
  Error problems = checkKeys(root);
  auto add = [&](Error problem) {
    problems = llvm::joinErrors(std::move(problems), std::move(problem));
  };
  Plan plan;
  plan.source = source.str();
  for (const auto &[key, value] : root.items())
    plan.positions[key] = position(locate(key, 0));
  if (root.contains("mesh"))
    add(readMesh(root["mesh"], locate("mesh", 0), plan));
  add(readSections(root, plan));
  add(readOptions(root, plan));
  add(readPipeline(root, plan));
  if (root.contains("prediction")) {
    size_t at = locate("prediction", 0);
    if (auto problem =
            readPrediction(root["prediction"], plan.prediction.emplace()))
      add(error(locate(problem->key, at), problem->path, problem->message));
  }
  if (problems)
    return std::move(problems);
  return plan;
}

llvm::Expected<Plan> heddle::parsePlan(StringRef text, StringRef source) {
  return PlanReader(text, source, /*isPart=*/false).read();
}

static llvm::Expected<Plan> readFile(StringRef path, bool isPart) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return llvm::createStringError(buffer.getError(),
                                   path + ": " + buffer.getError().message());
  return PlanReader((*buffer)->getBuffer(), path, isPart).read();
}

llvm::Expected<Plan> heddle::readPlanFile(StringRef path) {
  return readFile(path, /*isPart=*/false);
}

llvm::Expected<Plan> heddle::readPartialPlanFile(StringRef path) {
  return readFile(path, /*isPart=*/true);
}

std::string heddle::writePlan(const Plan &plan) {
  std::string text = "{\n  \"version\": 1,\n  \"mesh\": {";
  for (size_t i = 0; i < plan.mesh.size(); ++i)
    text += (i ? ", " : "") + json(plan.mesh[i].name).dump() + ": " +
            std::to_string(plan.mesh[i].size);
  text += "}" + writeSections(plan) + writeOptions(plan) + writePipeline(plan);
  if (plan.prediction)
    text += ",\n  \"prediction\": " + writePrediction(*plan.prediction);
  return text + "\n}\n";
}
