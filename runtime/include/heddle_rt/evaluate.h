//===- evaluate.h - Loss, logits and gradients of one batch -----*- C++ -*-===//
//
// For comparisons with another framework. Reads a batch from a safetensors
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

/// Reads `tokens` and, if present, `targets`: i32 or i64 [rows, sequence]; a
/// target of -100 is ignored. If the file has no targets, each token's target
/// is the next token of its row, and the last token of a row has none. Hugging
/// Face's models do the same for labels = input_ids.
Expected<Batch> readBatch(const std::filesystem::path &path);

/// Checks that all tokens and targets are in the vocabulary. A target may also
/// be ignored, but not every one. An error names the file, the position and the
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

/// Runs `batch` with the session's current parameters. The artifact's sequence
/// must equal the batch's; its batch must be at least as large, and missing
/// rows are filled with ignored tokens. Writes `loss` (scalar) and `logits`
/// [rows, sequence, vocabulary]. If `gradients` is set, also writes
/// `grad.NAME`, the gradient of the mean loss, for every parameter, in the
/// shape of the model's own checkpoint format. The file is replaced whole or
/// not at all.
Expected<EvaluateResult> evaluate(Session &session, const Batch &batch,
                                  const EvaluateOptions &options);

} // namespace heddle::runtime

#endif // HEDDLE_RT_EVALUATE_H
