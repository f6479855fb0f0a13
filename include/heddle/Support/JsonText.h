//===- JsonText.h - JSON that people write ----------------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_JSONTEXT_H
#define HEDDLE_SUPPORT_JSONTEXT_H

#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace heddle {

/// Lines and columns count from 1.
struct TextPosition {
  unsigned line = 1, column = 1;
};
inline TextPosition getTextPosition(llvm::StringRef text, size_t offset) {
  llvm::StringRef before = text.take_front(offset);
  // npos + 1 is 0.
  return {unsigned(before.count('\n') + 1),
          unsigned(before.size() - (before.rfind('\n') + 1) + 1)};
}

/// What is wrong with a text, and where it stands.
struct JsonProblem {
  size_t offset = 0;
  std::string message;
};

/// What becomes of a key that stands twice in an object.
enum class DuplicateKeys { Refuse, LastCounts };

/// Parses a text. No value may be so deep within others that to print it, which
/// calls itself for what is within, would overflow the stack.
template <typename Json>
std::optional<JsonProblem>
parseJson(llvm::StringRef text, Json &root,
          DuplicateKeys duplicates = DuplicateKeys::Refuse) {
  constexpr int kDeepest = 64; // deeper than anything that means something
  std::vector<std::set<std::string>> keys; // of the objects that are open
  std::string duplicate;
  int deepest = 0;
  auto watch = [&](int depth, typename Json::parse_event_t event, Json &value) {
    deepest = std::max(deepest, depth);
    if (event == Json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == Json::parse_event_t::key && duplicate.empty() &&
             !keys.back().insert(value.template get<std::string>()).second)
      duplicate = value.template get<std::string>();
    return true;
  };
  try {
    root = Json::parse(text.begin(), text.end(), watch);
  } catch (const typename Json::parse_error &problem) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    size_t offset = problem.byte ? problem.byte - 1 : 0;
    llvm::StringRef what =
        llvm::StringRef(problem.what()).split("] ").second.split(": ").second;
    return JsonProblem{std::min(offset, text.size()),
                       "expected JSON: " + what.str()};
  }
  if (deepest > kDeepest)
    return JsonProblem{0, "expected no lists within lists as deep as these"};
  if (duplicates == DuplicateKeys::Refuse && !duplicate.empty()) {
    std::string quoted = Json(duplicate).dump();
    size_t first = text.find(quoted), second = text.find(quoted, first + 1);
    return JsonProblem{second == llvm::StringRef::npos ? 0 : second,
                       "expected each key once, got \"" + duplicate +
                           "\" twice"};
  }
  return std::nullopt;
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_JSONTEXT_H
