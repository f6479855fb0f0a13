//===- ReadJson.h - Parse JSON, with the place of an error ------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_PROBLEM_READJSON_H
#define HEDDLE_LIB_SOLVER_PROBLEM_READJSON_H

#include "heddle/Support/JsonText.h"
#include "llvm/Support/Error.h"

namespace heddle::solver {

/// The most characters of a JSON value that a message shows.
inline constexpr size_t kLongestShown = 60;

/// Parses all of `text`; an error names line and column.
inline llvm::Expected<nlohmann::json> readJson(std::string_view text) {
  nlohmann::json root;
  std::optional<JsonProblem> problem = parseJson(text, root);
  if (!problem)
    return root;
  TextPosition at = getTextPosition(text, problem->offset);
  return llvm::createStringError("line " + std::to_string(at.line) +
                                 ", column " + std::to_string(at.column) +
                                 ": " + problem->message);
}

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_PROBLEM_READJSON_H
