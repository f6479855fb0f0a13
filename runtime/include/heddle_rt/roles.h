//===- roles.h - What the variables of an artifact are for ------*- C++ -*-===//
//
// Lists the roles of variables. The enum VariableRole of the compiler's dialect
// must have the same cases and numbers; the writer of manifests checks that.
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
  Loss, ///< the loss or its count of tokens, summed over micro-batches
};

/// The manifest's spelling of each role.
inline constexpr std::array<std::string_view, 5> variableRoles = {
    "parameter", "optimizer_state", "gradient", "counter", "loss"};

constexpr std::string_view name(VariableRole role) {
  return variableRoles[size_t(role)];
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

} // namespace heddle::runtime

#endif // HEDDLE_RT_ROLES_H
