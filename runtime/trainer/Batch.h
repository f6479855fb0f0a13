//===- Batch.h - A batch as the inputs of a program -------------*- C++ -*-===//

#ifndef HEDDLE_RT_TRAINER_BATCH_H
#define HEDDLE_RT_TRAINER_BATCH_H

#include "heddle_rt/evaluate.h"

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::runtime {

/// A batch as the values of a program's inputs.
struct InputValues {
  std::vector<std::vector<std::byte>> values; ///< by input
  /// Rows of the batch along the first input's dimension 0. The rows after them
  /// were added.
  int64_t rows = 1;
  int64_t labels = 0; ///< that count: other than `ignoredLabel`
};

/// Finds the tensors of a batch that are the inputs, by their names, and checks
/// their types, shapes and ids. Integers may be i64 in the batch and i32 in the
/// program. Dimension 0 of each tensor must have `parts` times as many rows as
/// the input; the parts are the micro-batches of a step. If there is one part,
/// the batch may have fewer rows, and ignored labels fill the others.
///
/// If the labels are missing, and they and the features are i32 [rows,
/// sequence], each label is the next feature of its row; the last one of a row
/// is ignored.
Expected<InputValues> matchBatch(const Batch &batch, const Manifest &manifest,
                                 std::span<const PortInfo> inputs,
                                 int64_t parts);

/// Reads the types and shapes of a file's tensors; they have no data.
Expected<Batch> readBatchShapes(const std::filesystem::path &path);

/// Checks the types and shapes of a batch's tensors, which may have no data, as
/// `matchBatch` does. Returns the batch's rows.
Expected<int64_t> matchShapes(const Batch &batch, const Manifest &manifest,
                              std::span<const PortInfo> inputs, int64_t parts);

} // namespace heddle::runtime

#endif // HEDDLE_RT_TRAINER_BATCH_H
