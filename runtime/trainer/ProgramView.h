//===- ProgramView.h - The programs that a trainer calls --------*- C++ -*-===//
//
// Finds the compiler's programs for the trainer and the evaluator, and checks
// their arguments and results once.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_TRAINER_PROGRAMVIEW_H
#define HEDDLE_RT_TRAINER_PROGRAMVIEW_H

#include "heddle_rt/session.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle::runtime {

/// `step(tokens, targets) -> (loss, grad_norm, learning_rate)`, or
/// `accumulate(tokens, targets)` and `update() -> (the same)`.
struct StepPrograms {
  std::optional<size_t> step, accumulate, update;
  std::optional<size_t> evaluate;  ///< -> (loss_sum, count, logits)
  int64_t batch = 0, sequence = 0; ///< of one micro-batch
  int64_t vocabulary = 0;
  int64_t microBatches = 1;
  size_t stepCounter = 0;            ///< the variable `steps`
  std::vector<Bytes> ignoredResults; ///< of accumulate

  int64_t rowsPerStep() const { return microBatches * batch; }

  /// Finds the programs in the manifest; an error says what is missing.
  static Expected<StepPrograms> find(const Manifest &manifest);

  /// Reads the number of completed steps from the counter.
  Expected<int64_t> readStep(const Session &session) const;
};

/// Returns an error unless `program` takes i32 tokens and targets of equal
/// shape [batch, sequence].
/// [batch, sequence].
Status checkBatchArguments(const ProgramInfo &program);

/// The last dimension of the logits that a program of the artifact returns.
Expected<int64_t> vocabularySize(const Manifest &manifest);

/// The model's config.json, as the compiler recorded it; empty if it did not.
std::string modelConfig(const Manifest &manifest);

} // namespace heddle::runtime

#endif // HEDDLE_RT_TRAINER_PROGRAMVIEW_H
