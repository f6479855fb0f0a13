//===- roles.h - Roles of variables, arguments and results ------*- C++ -*-===//
//
// Lists what the variables, arguments, results and tables of an artifact are
// for. The enums VariableRole and PortRole of the compiler's dialect must have
// the same cases and numbers; the writer of manifests checks that.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_ROLES_H
#define HEDDLE_RT_ROLES_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace heddle::runtime {

enum class VariableRole : uint32_t {
  Parameter,      ///< learned; read by evaluation and export
  OptimizerState, ///< kept from step to step for a parameter
  Gradient,       ///< of a parameter, summed over a step's micro-batches
  Counter,        ///< a number such as that of completed steps
  Loss,   ///< the loss or its count of tokens, summed over micro-batches
  Buffer, ///< of the model, but not learned: running statistics, frozen weights
  Setting, ///< a number that the caller sets, such as the learning rate
};

/// The manifest's spelling of each role.
inline constexpr std::array<std::string_view, 7> variableRoles = {
    "parameter", "optimizer_state", "gradient", "counter",
    "loss",      "buffer",          "setting"};

constexpr std::string_view name(VariableRole role) {
  return variableRoles[size_t(role)];
}

/// Returns true if a variable of this role belongs to the model, which reads
/// it.
constexpr bool isOfModel(VariableRole role) {
  return role == VariableRole::Parameter || role == VariableRole::Buffer;
}

/// Returns true if a variable of this role is summed up within a step and zero
/// between steps. Checkpoints leave such variables out.
constexpr bool isSumOfStep(VariableRole role) {
  return role == VariableRole::Gradient || role == VariableRole::Loss;
}

constexpr std::optional<VariableRole> parseVariableRole(std::string_view text) {
  for (size_t i = 0; i < variableRoles.size(); ++i)
    if (variableRoles[i] == text)
      return static_cast<VariableRole>(i);
  return std::nullopt;
}

/// What an argument or result of a program is for. Callers find it by this, not
/// by its name or place.
enum class PortRole : uint32_t {
  Features,     ///< what the model reads
  Labels,       ///< what the model should answer
  MicroBatch,   ///< the number of the micro-batch within its step, i64
  LossSum,      ///< the sum of the losses of all labels that count
  LabelCount,   ///< the number of these labels
  Loss,         ///< loss sum / label count
  GradientNorm, ///< before clipping
  LearningRate, ///< of the step
  Output,       ///< what the model answers, such as logits
  Gradient,     ///< of the loss, by one parameter
};

/// The manifest's spelling of each role.
inline constexpr std::array<std::string_view, 10> portRoles = {
    "features", "labels",        "micro_batch",   "loss_sum", "label_count",
    "loss",     "gradient_norm", "learning_rate", "output",   "gradient"};

constexpr std::string_view name(PortRole role) {
  return portRoles[size_t(role)];
}

constexpr std::optional<PortRole> parsePortRole(std::string_view text) {
  for (size_t i = 0; i < portRoles.size(); ++i)
    if (portRoles[i] == text)
      return static_cast<PortRole>(i);
  return std::nullopt;
}

/// What a trainer runs a table for. It finds tables by their roles; names are
/// for people.
enum class TableRole : uint32_t {
  Step,      ///< trains on the micro-batches of one step
  Evaluate,  ///< the loss of a batch
  Gradients, ///< the gradients of a batch's loss, by each parameter
};

/// The manifest's spelling of each role.
inline constexpr std::array<std::string_view, 3> tableRoles = {
    "step", "evaluate", "gradients"};

constexpr std::string_view name(TableRole role) {
  return tableRoles[size_t(role)];
}

constexpr std::optional<TableRole> parseTableRole(std::string_view text) {
  for (size_t i = 0; i < tableRoles.size(); ++i)
    if (tableRoles[i] == text)
      return static_cast<TableRole>(i);
  return std::nullopt;
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_ROLES_H
