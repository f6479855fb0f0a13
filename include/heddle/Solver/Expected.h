//===- Expected.h - A value or the reason why there is none -----*- C++ -*-===//
//
// The solver is plain C++ without LLVM and without exceptions across its
// interface; this is its only error channel.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SOLVER_EXPECTED_H
#define HEDDLE_SOLVER_EXPECTED_H

#include <string>
#include <utility>
#include <variant>

namespace heddle::solver {

/// Why something was refused: names the field, what was expected and what was
/// found; lower case, no full stop.
struct Error {
  std::string Message;
};

/// Holds a `T` or an `Error`. Test with `if (!Value)` before `*Value`.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T Value) : Content(std::move(Value)) {}
  Expected(Error Reason) : Content(std::move(Reason)) {}

  explicit operator bool() const { return std::holds_alternative<T>(Content); }
  T &operator*() { return *std::get_if<T>(&Content); }
  const T &operator*() const { return *std::get_if<T>(&Content); }
  T *operator->() { return std::get_if<T>(&Content); }
  const T *operator->() const { return std::get_if<T>(&Content); }

  /// The reason; only valid when there is no value.
  const Error &error() const { return *std::get_if<Error>(&Content); }

private:
  std::variant<T, Error> Content;
};

} // namespace heddle::solver

#endif // HEDDLE_SOLVER_EXPECTED_H
