//===- PredictionJson.cpp - The key "prediction" of plans -----------------===//

#include "PredictionJson.h"
#include "heddle/Support/JsonText.h"
#include <vector>

using namespace heddle;
using json = nlohmann::ordered_json;

namespace {
/// A key and the member that stores its value. The tables below list the keys
/// for the reader and the writer.
template <typename T> struct Field {
  const char *key;
  T PlanPrediction::*member;
};
} // namespace

static constexpr Field<std::string> kHashes[] = {
    {"program", &PlanPrediction::programHash},
    {"cluster", &PlanPrediction::clusterHash}};
static constexpr Field<double> kTimes[] = {
    {"seconds", &PlanPrediction::seconds},
    {"bound", &PlanPrediction::bound},
    {"gap", &PlanPrediction::gap}};
static constexpr Field<int64_t> kSizes[] = {
    {"rows", &PlanPrediction::rows},
    {"micro_batches", &PlanPrediction::microBatches}};
static constexpr Field<int64_t> kMemory[] = {
    {"parameters", &PlanPrediction::parameters},
    {"optimizer_state", &PlanPrediction::optimizerState},
    {"gradients", &PlanPrediction::gradients},
    {"counters", &PlanPrediction::counters},
    {"arena", &PlanPrediction::arena},
    {"arguments_and_results", &PlanPrediction::argumentsAndResults},
    {"slots", &PlanPrediction::slots},
    {"total", &PlanPrediction::all},
    {"limit", &PlanPrediction::limit}};

template <typename T, size_t N>
static const Field<T> *findField(const Field<T> (&fields)[N],
                                 const std::string &key) {
  for (const Field<T> &field : fields)
    if (key == field.key)
      return &field;
  return nullptr;
}

static std::optional<PredictionProblem>
readInteger(const json &value, const std::string &key, const std::string &path,
            int64_t least, int64_t &result) {
  if (!value.is_number_integer() || value.get<int64_t>() < least)
    return PredictionProblem{key, path,
                             "expected a whole number of at least " +
                                 std::to_string(least) + ", got " +
                                 showJson(value)};
  result = value.get<int64_t>();
  return std::nullopt;
}

static std::optional<PredictionProblem> readMemory(const json &value,
                                                   PlanPrediction &prediction) {
  const std::string path = "$.prediction.memory";
  if (!value.is_object())
    return PredictionProblem{
        "memory", path, "expected an object of bytes, got " + showJson(value)};
  for (const auto &[key, bytes] : value.items()) {
    const Field<int64_t> *field = findField(kMemory, key);
    if (!field)
      return PredictionProblem{key, path, "unknown key \"" + key + "\""};
    if (auto problem = readInteger(bytes, key, path + "." + key, 0,
                                   prediction.*(field->member)))
      return problem;
  }
  return std::nullopt;
}

static std::optional<PredictionProblem>
readFingerprints(const json &value, PlanPrediction &prediction) {
  const std::string path = "$.prediction.fingerprints";
  if (!value.is_object())
    return PredictionProblem{"fingerprints", path,
                             "expected an object of texts, got " +
                                 showJson(value)};
  for (const auto &[key, text] : value.items()) {
    const Field<std::string> *field = findField(kHashes, key);
    if (!field)
      return PredictionProblem{key, path, "unknown key \"" + key + "\""};
    if (!text.is_string())
      return PredictionProblem{key, path + "." + key,
                               "expected a text, got " + showJson(text)};
    prediction.*(field->member) = text.get<std::string>();
  }
  return std::nullopt;
}

std::optional<PredictionProblem>
heddle::readPrediction(const json &value, PlanPrediction &prediction) {
  const std::string path = "$.prediction";
  if (!value.is_object())
    return PredictionProblem{"prediction", path,
                             "expected an object, got " + showJson(value)};
  for (const auto &[key, item] : value.items()) {
    std::string at = path + "." + key;
    const Field<double> *time = findField(kTimes, key);
    if (time || key == "exposed") {
      if (!item.is_number() || !(item.get<double>() >= 0))
        return PredictionProblem{
            key, at, "expected a number of at least 0, got " + showJson(item)};
      if (time)
        prediction.*(time->member) = item.get<double>();
      else
        prediction.exposed = item.get<double>();
    } else if (const Field<int64_t> *size = findField(kSizes, key)) {
      if (auto problem =
              readInteger(item, key, at, 1, prediction.*(size->member)))
        return problem;
    } else if (key == "memory") {
      if (auto problem = readMemory(item, prediction))
        return problem;
    } else if (key == "cluster") {
      if (!item.is_string())
        return PredictionProblem{
            key, at, "expected a cluster's name, got " + showJson(item)};
      prediction.cluster = item.get<std::string>();
    } else if (key == "fingerprints") {
      if (auto problem = readFingerprints(item, prediction))
        return problem;
    } else if (key == "bf16") {
      if (!item.is_boolean())
        return PredictionProblem{
            key, at, "expected true or false, got " + showJson(item)};
      prediction.bf16 = item.get<bool>();
    } else if (key == "sequence") {
      if (auto problem = readInteger(item, key, at, 1, prediction.sequence))
        return problem;
    } else if (key == "optimizer") {
      if (item != "adamw" && item != "adam" && item != "sgd")
        return PredictionProblem{
            key, at,
            "expected \"adamw\", \"adam\" or \"sgd\", got " + showJson(item)};
      prediction.optimizer = item.get<std::string>();
    } else {
      return PredictionProblem{key, path, "unknown key \"" + key + "\""};
    }
  }
  // Without these keys, nobody could tell whether a prediction is of a given
  // step.
  for (const char *key : {"cluster", "rows", "micro_batches"})
    if (!value.contains(key))
      return PredictionProblem{"prediction", path,
                               std::string("expected the key \"") + key +
                                   "\", which says of what step it is"};
  return std::nullopt;
}

std::string heddle::writePrediction(const PlanPrediction &prediction) {
  std::string text = "{\n    \"cluster\": " + json(prediction.cluster).dump();
  std::string hashes;
  for (const Field<std::string> &field : kHashes)
    if (const std::string &value = prediction.*(field.member); !value.empty())
      hashes += (hashes.empty() ? "" : ", ") + json(field.key).dump() + ": " +
                json(value).dump();
  if (!hashes.empty())
    text += ",\n    \"fingerprints\": {" + hashes + "}";
  for (const Field<int64_t> &field : kSizes)
    text += ",\n    " + json(field.key).dump() + ": " +
            std::to_string(prediction.*(field.member));
  text +=
      std::string(",\n    \"bf16\": ") + (prediction.bf16 ? "true" : "false");
  if (prediction.sequence > 0)
    text += ",\n    \"sequence\": " + std::to_string(prediction.sequence);
  if (!prediction.optimizer.empty())
    text += ",\n    \"optimizer\": " + json(prediction.optimizer).dump();
  for (const Field<double> &field : kTimes)
    text += ",\n    " + json(field.key).dump() + ": " +
            json(prediction.*(field.member)).dump();
  if (prediction.exposed)
    text += ",\n    \"exposed\": " + json(*prediction.exposed).dump();
  text += ",\n    \"memory\": {";
  std::string separator;
  for (const Field<int64_t> &field : kMemory) {
    // Either the parts are known or their sum.
    bool isPart = field.member != &PlanPrediction::limit;
    bool isSum = field.member == &PlanPrediction::all;
    if (isPart && isSum != (prediction.all > 0))
      continue;
    text += separator + json(field.key).dump() + ": " +
            std::to_string(prediction.*(field.member));
    separator = ", ";
  }
  return text + "}\n  }";
}
