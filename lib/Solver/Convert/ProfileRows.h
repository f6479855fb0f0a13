//===- ProfileRows.h - Reading the rows of a profile ------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_CONVERT_PROFILEROWS_H
#define HEDDLE_LIB_SOLVER_CONVERT_PROFILEROWS_H

#include "Problem/ReadJson.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace heddle::solver {

/// Reads the fields of one row, and remembers the first error.
class ProfileRow {
public:
  ProfileRow(const nlohmann::json &row, size_t index)
      : row(row), name("rows[" + std::to_string(index) + "]") {}

  /// Reads an integer from 0 to a million, so that products fit 64 bits; 0
  /// after a failure.
  int64_t integer(const char *key);
  /// Reads a number from 0 to below `most`; 0 after a failure.
  double number(const char *key, double most);
  std::string text(const char *key); ///< Empty after a failure.

  void fail(const char *key, const std::string &expected);
  const std::string &getFailure() const { return failure; } ///< Or empty.

private:
  const nlohmann::json *find(const char *key);
  const nlohmann::json &row;
  std::string name;
  std::string failure;
};

/// Calls `read` for each row of `{"rows": [...]}` until one fails.
template <typename Fn>
llvm::Error readProfileRows(std::string_view text, const Fn &read) {
  auto root = readJson(text);
  if (!root)
    return root.takeError();
  auto rows = root->find("rows");
  if (rows == root->end() || !rows->is_array())
    return llvm::createStringError("rows: expected an array of measurements");
  for (size_t i = 0; i < rows->size(); ++i) {
    ProfileRow row((*rows)[i], i);
    read(row);
    if (!row.getFailure().empty())
      return llvm::createStringError(row.getFailure());
  }
  return llvm::Error::success();
}

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_CONVERT_PROFILEROWS_H
