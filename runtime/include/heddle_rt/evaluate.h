//===- evaluate.h - Loss, logits and gradients of one batch -----*- C++ -*-===//
//
// The tool for comparing with another framework: reads a batch from a
// safetensors file, runs it on an artifact, writes what came out under the
// names that the other framework knows.
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

/// Reads `tokens` and, if there, `targets` (i32 or i64, B x S; a target of -100
/// is ignored). Without targets the target of a token is the next one, and the
/// last of each row is ignored: what Hugging Face's models compute for labels =
/// input_ids.
Expected<Batch> readBatch(const std::filesystem::path &path);

/// Checks that tokens are of the vocabulary, targets of it or ignored, but not
/// all ignored; an error names the file, the position and the value.
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
/// must be the batch's and its batch at least as large: missing rows are filled
/// with ignored ones. Writes `loss` (scalar), `logits` [B, S, V] and, if asked
/// for, `grad.NAME` of the mean loss for every parameter in the shape of the
/// model's own checkpoint format. The file is replaced whole or not at all.
Expected<EvaluateResult> evaluate(Session &session, const Batch &batch,
                                  const EvaluateOptions &options);

} // namespace heddle::runtime

#endif // HEDDLE_RT_EVALUATE_H
