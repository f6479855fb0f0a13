//===- TableView.h - The tables that a trainer runs -------------*- C++ -*-===//
//
// Finds the compiler's tables for the trainer and the evaluator, and their
// inputs and outputs by role. Checks each table once.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_TRAINER_TABLEVIEW_H
#define HEDDLE_RT_TRAINER_TABLEVIEW_H

#include "heddle_rt/session.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace heddle::runtime {

/// Returns the first input of this role.
std::optional<size_t> findRole(std::span<const PortInfo> inputs, PortRole role);

/// Returns the output of this role, which must be the only one and an f32
/// scalar of the whole run.
Expected<size_t> findScalar(const TableInfo &table, PortRole role);

/// Returns an error unless a batch can fill all inputs: they have the role
/// features or labels.
Status checkInputs(const TableInfo &table);

/// Returns "f32 [8, 784]", for messages.
std::string describe(const TensorInfo &tensor);

/// Returns the number of values that a label can have: the last dimension of an
/// output whose other dimensions are those of the labels. Returns nothing if no
/// such output is known.
std::optional<int64_t> findVocabulary(const Manifest &manifest,
                                      std::span<const PortInfo> inputs);

/// The two inputs of a table that reads windows of tokens.
struct TokenInputs {
  size_t features, labels;
  int64_t rows, sequence;
  int64_t vocabulary;
};

/// Returns the inputs that windows of tokens fill: one of features and one of
/// labels, both i32 [rows, sequence], and nothing else.
Expected<TokenInputs> findTokenInputs(const Manifest &manifest,
                                      std::span<const PortInfo> inputs);

/// The tables of a training: `step` returns the loss, the norm of the gradients
/// and the learning rate; `evaluate` returns the sum of the losses and the
/// number of labels.
struct TrainingTables {
  size_t step = 0;
  std::optional<size_t> evaluate;
  std::vector<PortInfo> inputs; ///< of one micro-batch
  /// Outputs of `step`.
  size_t loss = 0, gradientNorm = 0, learningRate = 0;
  /// Outputs of `evaluate`.
  size_t lossSum = 0, labelCount = 0;
  int64_t microBatches = 1;
  bool hasBarrier = true; ///< of `step`
  size_t stepCounter = 0; ///< index of the variable that counts the steps

  /// Finds the tables in the manifest. An error names the missing table.
  static Expected<TrainingTables> find(const Manifest &manifest);

  /// Returns the rows of a whole step: those of the first input's dimension 0.
  int64_t rowsPerStep() const;
  /// Returns the labels of a whole step, or its rows if no input has the role
  /// labels.
  int64_t labelsPerStep() const;

  /// Reads the number of completed steps from the counter.
  Expected<int64_t> readStep(const Session &session) const;
};

/// Returns the model's config.json as the compiler recorded it; empty if it
/// recorded none.
std::string modelConfig(const Manifest &manifest);

} // namespace heddle::runtime

#endif // HEDDLE_RT_TRAINER_TABLEVIEW_H
