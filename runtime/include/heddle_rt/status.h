//===- status.h - Errors as values ------------------------------*- C++ -*-===//
//
// Plain C++ in Heddle reports failure by a Status or an Expected value. The
// message is for a person: it names the thing, what was expected, what was
// found and what to do. It is lower case and has no full stop. Nothing here
// throws or aborts.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_STATUS_H
#define HEDDLE_RT_STATUS_H

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace heddle::runtime {

/// Success, or an error with a message.
class [[nodiscard]] Status {
public:
  /// Success.
  Status() = default;

  static Status success() { return Status(); }
  static Status error(std::string message) {
    Status status;
    status.text = std::move(message);
    return status;
  }

  bool ok() const { return !text.has_value(); }

  /// The error's message; empty on success.
  std::string_view message() const {
    return text ? std::string_view(*text) : std::string_view();
  }

  /// The same error with "`context`: " in front; success stays success.
  Status in(std::string_view context) && {
    if (text)
      text = std::string(context) + ": " + *text;
    return std::move(*this);
  }

private:
  std::optional<std::string> text;
};

inline Status error(std::string message) {
  return Status::error(std::move(message));
}

/// A value, or the error why there is none. Reading the value of an error is a
/// mistake of the caller: check ok() first.
template <typename T> class [[nodiscard]] Expected {
public:
  /// Makes a value from anything that converts to T, so that `return
  /// std::move(derived)` works.
  template <typename U = T,
            typename = std::enable_if_t<
                std::is_convertible_v<U &&, T> &&
                !std::is_same_v<std::remove_cvref_t<U>, Expected> &&
                !std::is_same_v<std::remove_cvref_t<U>, Status>>>
  Expected(U &&value)
      : storage(std::in_place_index<0>, std::forward<U>(value)) {}
  /// Makes an error. A success has no value to hold, so it becomes an internal
  /// error.
  Expected(Status status)
      : storage(std::in_place_index<1>,
                status.ok() ? Status::error("internal error: success without a "
                                            "value")
                            : std::move(status)) {}

  bool ok() const { return storage.index() == 0; }

  T &operator*() & { return *std::get_if<0>(&storage); }
  const T &operator*() const & { return *std::get_if<0>(&storage); }
  T &&operator*() && { return std::move(*std::get_if<0>(&storage)); }
  T *operator->() { return std::get_if<0>(&storage); }
  const T *operator->() const { return std::get_if<0>(&storage); }

  /// Returns the error, or success if there is a value.
  Status status() const & {
    return ok() ? Status() : *std::get_if<1>(&storage);
  }
  Status status() && {
    return ok() ? Status() : std::move(*std::get_if<1>(&storage));
  }
  std::string_view message() const {
    return ok() ? std::string_view() : std::get_if<1>(&storage)->message();
  }

private:
  std::variant<T, Status> storage;
};

} // namespace heddle::runtime

/// Returns the error of `expression` (a Status) from the enclosing function.
#define HEDDLE_RT_RETURN_IF_ERROR(expression)                                  \
  do {                                                                         \
    if (::heddle::runtime::Status heddleRtStatus = (expression);               \
        !heddleRtStatus.ok())                                                  \
      return heddleRtStatus;                                                   \
  } while (false)

#endif // HEDDLE_RT_STATUS_H
