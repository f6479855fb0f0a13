//===- ProfileRows.h - Reading the rows of a profile ------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_CONVERT_CONVERTERS_PROFILEROWS_H
#define HEDDLE_LIB_SOLVER_CONVERT_CONVERTERS_PROFILEROWS_H

#include "Problem/StrictJson.h"
#include "heddle/Solver/Expected.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace heddle::solver {

/// The fields of one row; remembers the first that is wrong.
class ProfileRow {
public:
  ProfileRow(const nlohmann::json &Row, size_t Index)
      : Row(Row), Name("rows[" + std::to_string(Index) + "]") {}

  /// From 0 to a million, so that products fit 64 bits; 0 after a failure.
  int64_t integer(const char *Key);
  /// From 0 to below `Most`; 0 after a failure.
  double number(const char *Key, double Most);
  std::string text(const char *Key); ///< Empty after a failure.

  void fail(const char *Key, const std::string &Expected);
  const std::optional<Error> &failure() const { return Failure; }

private:
  const nlohmann::json *find(const char *Key);
  const nlohmann::json &Row;
  std::string Name;
  std::optional<Error> Failure;
};

/// Calls `Read` for each row of `{"rows": [...]}` until one fails.
template <typename Fn>
std::optional<Error> readProfileRows(std::string_view Text, const Fn &Read) {
  auto Root = parseStrictJson(Text);
  if (!Root)
    return Root.error();
  auto Rows = Root->find("rows");
  if (Rows == Root->end() || !Rows->is_array())
    return Error{"rows: expected an array of measurements"};
  for (size_t I = 0; I < Rows->size(); ++I) {
    ProfileRow Row((*Rows)[I], I);
    Read(Row);
    if (Row.failure())
      return Row.failure();
  }
  return std::nullopt;
}

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_CONVERT_CONVERTERS_PROFILEROWS_H
