//===- evaluate.h - Loss, outputs and gradients of a batch -----*- C++ -*-===//
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
#include <string>
#include <string_view>
#include <vector>

namespace heddle::runtime {

/// One tensor of a batch, row-major. Dimension 0 counts rows.
struct BatchTensor {
  std::string name;
  DType type;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

/// Tensors for the inputs of a program, which are matched by name.
struct Batch {
  std::vector<BatchTensor> tensors;
  std::string source = {}; ///< the file that it was read from, for errors

  /// Returns the tensor of this name, or null.
  const BatchTensor *find(std::string_view name) const;
};

/// Reads all tensors of a safetensors file.
Expected<Batch> readBatch(const std::filesystem::path &path);

struct EvaluateOptions {
  std::filesystem::path output; ///< a .safetensors file; empty: none
  bool gradients = false;
};

struct EvaluateResult {
  double loss = 0; ///< mean over the labels, in nats
  int64_t labels = 0;
};

/// Runs `batch` with the session's current parameters. The batch's tensors have
/// the names and shapes of the artifact's features and labels; i64 is accepted
/// in place of i32. A batch of fewer rows than the artifact's is filled with
/// ignored labels (-100). A language model's labels may be missing: then each
/// label is the next token of its row, and the last token of a row has none.
/// Hugging Face's models do the same for labels = input_ids. Ids must be in the
/// vocabulary, and not every label may be ignored; an error names the file, the
/// position and the value.
///
/// Writes `loss` (scalar) and the artifact's outputs under their names (a
/// language model's `logits` [rows, sequence, vocabulary]). If `gradients` is
/// set, also writes `grad.NAME`, the gradient of the mean loss, for every
/// parameter, in the shape of the model's own checkpoint format. The file is
/// replaced whole or not at all.
Expected<EvaluateResult> evaluate(Session &session, const Batch &batch,
                                  const EvaluateOptions &options);

} // namespace heddle::runtime

#endif // HEDDLE_RT_EVALUATE_H
