//===- PredictionJson.h - The key "prediction" of plans ---------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLAN_PREDICTIONJSON_H
#define HEDDLE_LIB_PLAN_PREDICTIONJSON_H

#include "heddle/Plan/Prediction.h"
#include <nlohmann/json.hpp>
#include <optional>

namespace heddle {

/// A mistake in a prediction: the key at which the error is reported, the path
/// of the value, and the value that was expected.
struct PredictionProblem {
  std::string key, path, message;
};

/// Reads the value of "prediction".
std::optional<PredictionProblem>
readPrediction(const nlohmann::ordered_json &value, PlanPrediction &prediction);

/// Returns the value of "prediction".
std::string writePrediction(const PlanPrediction &prediction);

} // namespace heddle

#endif // HEDDLE_LIB_PLAN_PREDICTIONJSON_H
