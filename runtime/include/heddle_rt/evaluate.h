//===- evaluate.h - Loss, logits and gradients of one batch -----*- C++ -*-===//
//
// For comparisons with another framework: reads a batch from a safetensors
// file, runs it on an artifact, and writes the results under the names of the
// model's own checkpoint format.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_EVALUATE_H
#define HEDDLE_RT_EVALUATE_H

#include "heddle_rt/session.h"
#include "heddle_rt/status.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace heddle::runtime {

/// Tokens and targets [rows, sequence], row-major.
struct Batch {
  int64_t rows = 0, sequence = 0;
  std::vector<int32_t> tokens, targets;
  std::string source = {}; ///< the file that it was read from, for errors
};

/// Reads `tokens` and, if present, `targets` (i32 or i64, B x S; a target of
/// -100 is ignored). Without targets, the target of a token is the next one,
/// and the last token of each row has none. Hugging Face's models compute the
/// same for labels = input_ids.
Expected<Batch> readBatch(const std::filesystem::path &path);

/// Checks that tokens are in the vocabulary, and that targets are in it or
/// ignored, but not all ignored. An error names the file, the position and the
/// value.
Status checkBatch(const Batch &batch, int64_t vocabulary);

struct EvaluateOptions {
  std::filesystem::path output; ///< a .safetensors file; empty: none
  bool gradients = false;
};

struct EvaluateResult {
  double loss = 0; ///< mean over the labels, in nats
  int64_t labels = 0;
};

/// Runs `batch` with the session's present parameters. The artifact's sequence
/// must be the batch's. The artifact's batch must be at least as large; missing
/// rows are filled with ignored tokens. Writes `loss` (scalar), `logits` [B, S,
/// V] and, if `gradients` is set, `grad.NAME` of the mean loss for every
/// parameter, in the shape of the model's own checkpoint format. The file is
/// replaced whole or not at all.
Expected<EvaluateResult> evaluate(Session &session, const Batch &batch,
                                  const EvaluateOptions &options);

} // namespace heddle::runtime

#endif // HEDDLE_RT_EVALUATE_H
