//===- Prediction.h - What a plan was expected to need ----------*- C++ -*-===//

#ifndef HEDDLE_PLAN_PREDICTION_H
#define HEDDLE_PLAN_PREDICTION_H

#include <cstdint>
#include <optional>
#include <string>

namespace heddle {

/// The planner's prediction for a plan, and the training step that it is for.
/// No pass makes a decision by it.
struct PlanPrediction {
  std::string cluster; ///< the cluster's name
  /// Hashes of the program and of the cluster; see PlanVerifier/Fingerprint.h.
  /// Empty: unknown.
  std::string programHash, clusterHash;
  /// The step: rows of all devices and micro-batches together.
  int64_t rows = 1, microBatches = 1;
  bool bf16 = false;
  /// Positions of a row; 0: unknown, or the program has none.
  int64_t sequence = 0;
  std::string optimizer; ///< "adamw", "adam" or "sgd"; empty: unknown
  double seconds = 0;    ///< of a step
  /// Of these, computation waits for communication. A profile of blocks does
  /// not say.
  std::optional<double> exposed;
  /// No plan that was considered takes fewer seconds; 1 - bound / seconds.
  double bound = 0, gap = 0;
  /// Bytes of each device, and how many it may use.
  int64_t parameters = 0, optimizerState = 0, gradients = 0, counters = 0;
  int64_t arena = 0, argumentsAndResults = 0;
  int64_t slots = 0; ///< of a pipeline
  int64_t all = 0;   ///< in all, if their parts are unknown; else 0
  int64_t limit = 0;

  int64_t getMemory() const {
    return parameters + optimizerState + gradients + counters + arena +
           argumentsAndResults + slots + all;
  }
};

} // namespace heddle

#endif // HEDDLE_PLAN_PREDICTION_H
