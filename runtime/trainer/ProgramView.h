//===- ProgramView.h - The programs that a trainer calls --------*- C++ -*-===//
//
// Finds the compiler's programs for the trainer and the evaluator. Checks each
// program's arguments and results once.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_TRAINER_PROGRAMVIEW_H
#define HEDDLE_RT_TRAINER_PROGRAMVIEW_H

#include "heddle_rt/session.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle::runtime {

/// The programs of a training step: `step(tokens, targets) -> results`, or
/// `accumulate(tokens, targets)` and `update() -> results`. The results are
/// (loss, grad_norm, learning_rate).
struct StepPrograms {
  std::optional<size_t> step, accumulate, update;
  std::optional<size_t> evaluate;  ///< returns (loss_sum, count, logits)
  int64_t batch = 0, sequence = 0; ///< shape of one micro-batch
  int64_t vocabulary = 0;
  int64_t microBatches = 1;
  size_t stepCounter = 0;            ///< index of the variable `steps`
  std::vector<Bytes> ignoredResults; ///< for the results of accumulate

  int64_t rowsPerStep() const { return microBatches * batch; }

  /// Finds the programs in the manifest. An error names the missing program.
  static Expected<StepPrograms> find(const Manifest &manifest);

  /// Reads the number of completed steps from the counter.
  Expected<int64_t> readStep(const Session &session) const;
};

/// Returns an error unless `program` takes i32 tokens and targets of equal
/// shape [batch, sequence].
Status checkBatchArguments(const ProgramInfo &program);

/// Returns the last dimension of the logits, from a program that returns them.
Expected<int64_t> vocabularySize(const Manifest &manifest);

/// Returns the model's config.json as the compiler recorded it; empty if it
/// recorded none.
std::string modelConfig(const Manifest &manifest);

} // namespace heddle::runtime

#endif // HEDDLE_RT_TRAINER_PROGRAMVIEW_H
