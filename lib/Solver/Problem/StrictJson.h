//===- StrictJson.h - JSON that says where it is wrong ----------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_PROBLEM_STRICTJSON_H
#define HEDDLE_LIB_SOLVER_PROBLEM_STRICTJSON_H

#include "heddle/Solver/Expected.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace heddle::solver {

/// Parses all of `Text`. Refuses what is no JSON (naming line and column), an
/// object that has a key twice, and nesting that no file of ours has.
Expected<nlohmann::json> parseStrictJson(std::string_view Text);

/// A value for an error message: on one line, not longer than a few words.
std::string abbreviate(const nlohmann::json &Value);

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_PROBLEM_STRICTJSON_H
