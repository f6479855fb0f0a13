//===- JsonText.h - JSON that people write ----------------------*- C++ -*-===//
//
// Parses JSON strictly and says where it is wrong. Does not use LLVM, because
// the runtime reads its files with it, too.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SUPPORT_JSONTEXT_H
#define HEDDLE_SUPPORT_JSONTEXT_H

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace heddle {

/// A place in a text. Lines and columns count from 1.
struct TextPosition {
  unsigned line = 1, column = 1;
};

inline TextPosition getTextPosition(std::string_view text, size_t offset) {
  std::string_view before = text.substr(0, std::min(offset, text.size()));
  // Without a line break before it, rfind gives npos, and npos + 1 is 0.
  return {unsigned(std::count(before.begin(), before.end(), '\n') + 1),
          unsigned(before.size() - (before.rfind('\n') + 1) + 1)};
}

/// Formats a place as "SOURCE:LINE:COLUMN".
inline std::string describePlace(std::string_view source, std::string_view text,
                                 size_t offset) {
  TextPosition at = getTextPosition(text, offset);
  return std::string(source) + ":" + std::to_string(at.line) + ":" +
         std::to_string(at.column);
}

/// Returns which of Heddle's files a value looks like, such as "a plan"; empty
/// if it looks like none.
template <typename Json> std::string findJsonKind(const Json &value) {
  static constexpr std::pair<const char *, const char *> kinds[] = {
      {"traceEvents", "a trace"},
      {"machines", "a profile"},
      {"model_type", "a model's config"},
      {"programs", "an artifact's manifest"},
      {"levels", "a cluster"},
      {"mesh", "a plan"}};
  if (value.is_object())
    for (auto [key, kind] : kinds)
      if (value.contains(key))
        return kind;
  return "";
}

/// If `value` lacks the key of the expected kind of file and looks like another
/// kind, returns a message. Otherwise returns an empty text.
template <typename Json>
std::string describeOtherKind(const Json &value, const std::string &key,
                              const std::string &expected) {
  std::string kind = findJsonKind(value);
  if (kind.empty() || value.contains(key))
    return "";
  return "expected " + expected + ", this looks like " + kind;
}

/// What is wrong in a text, and the offset of the place.
struct JsonProblem {
  size_t offset = 0;
  std::string message;
};

/// Prints a value for a message: on one line, and not much longer than
/// `longest`.
template <typename Json>
std::string showJson(const Json &value, size_t longest = 80) {
  // Do not print it first: it may have millions of entries.
  if (value.is_structured() && value.size() > longest)
    return (value.is_array() ? "a list of " : "an object of ") +
           std::to_string(value.size()) + " entries";
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= longest)
    return text;
  // Do not cut a UTF-8 character in two.
  while (longest > 0 && (text[longest] & 0xc0) == 0x80)
    --longest;
  return text.substr(0, longest) + "...";
}

namespace detail {

/// Iterates over a text and counts the characters that the parser has read.
struct CountingIterator {
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  const char *at;
  size_t *count;

  reference operator*() const { return *at; }
  CountingIterator &operator++() {
    ++at;
    ++*count;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator &other) const {
    return at == other.at;
  }
  bool operator!=(const CountingIterator &other) const {
    return at != other.at;
  }
};

/// Builds the value. Stops at errors that the library accepts, such as a key
/// that occurs twice.
template <typename Json>
class StrictJsonBuilder : public nlohmann::detail::json_sax_dom_parser<Json> {
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  /// The deepest nesting that is accepted, more than any file of ours has. The
  /// library prints values by recursion, which must not overflow the stack.
  static constexpr size_t kMaxDepth = 64;

public:
  StrictJsonBuilder(std::string_view text, Json &root)
      : Base(root, /*allow_exceptions=*/false), text(text) {}

  bool start_object(size_t size) {
    keys.emplace_back();
    return open() && Base::start_object(size);
  }
  bool end_object() {
    keys.pop_back();
    --depth;
    return Base::end_object();
  }
  bool start_array(size_t size) { return open() && Base::start_array(size); }
  bool end_array() {
    --depth;
    return Base::end_array();
  }
  bool key(std::string &key) {
    if (keys.back().insert(key).second)
      return Base::key(key);
    return stop(findOpeningQuote(), "expected each key once, got " +
                                        showJson(Json(key)) + " twice");
  }
  template <typename Exception>
  bool parse_error(size_t end, const std::string &token,
                   const Exception &problem) {
    // The last character that the lexer read.
    size_t last = std::min(end ? end - 1 : 0, text.size());
    std::string_view what = problem.what();
    if constexpr (std::is_same_v<Exception, typename Json::out_of_range>)
      return stop(end - std::min(end, token.size()),
                  "expected a number that a double can hold, got " +
                      token.substr(0, kMaxToken) +
                      (token.size() > kMaxToken ? "..." : ""));
    if (what.find("ill-formed UTF-8") != std::string_view::npos)
      return stop(last, "expected text in UTF-8, got something else");
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    what.remove_prefix(std::min(what.size(), what.find(": ") + 2));
    return stop(last, "expected JSON: " + shortenToken(what));
  }

  std::optional<JsonProblem> problem;
  size_t numRead = 0; ///< characters of the text

private:
  static constexpr size_t kMaxToken = 40;

  bool stop(size_t offset, std::string message) {
    problem = JsonProblem{offset, std::move(message)};
    return false;
  }
  bool open() {
    return ++depth <= kMaxDepth ||
           stop(numRead - 1, "expected at most " + std::to_string(kMaxDepth) +
                                 " lists and objects within one another, got "
                                 "more");
  }
  /// The offset of the opening quote of a key whose closing quote is the last
  /// character that was read.
  size_t findOpeningQuote() const {
    size_t quote = numRead - 1;
    for (bool isEscaped = true; isEscaped && quote > 0;) {
      quote = text.rfind('"', quote - 1);
      size_t slash = quote;
      while (slash > 0 && text[slash - 1] == '\\')
        --slash;
      isEscaped = (quote - slash) % 2 == 1;
    }
    return quote;
  }
  /// Shortens the token that a message of the library echoes, such as a string
  /// without an end.
  static std::string shortenToken(std::string_view what) {
    constexpr std::string_view before = "last read: '";
    size_t begin = what.find(before), end = what.rfind("'; expected ");
    if (end == std::string_view::npos)
      end = what.rfind('\'');
    if (begin == std::string_view::npos ||
        end - (begin += before.size()) <= kMaxToken)
      return std::string(what);
    size_t from = end - kMaxToken;
    while (from < end && (what[from] & 0xc0) == 0x80)
      ++from; // do not cut a UTF-8 character in two
    return std::string(what.substr(0, begin)) + "..." +
           std::string(what.substr(from));
  }

  std::string_view text;
  std::vector<std::set<std::string>> keys; ///< of the open objects
  size_t depth = 0;
};

} // namespace detail

/// Parses all of a text into `root`. Returns the problem, if there is one.
/// Besides wrong syntax, that can be a key that occurs twice in an object, a
/// number that a double cannot hold, or very deep nesting.
template <typename Json>
std::optional<JsonProblem> parseJson(std::string_view text, Json &root) {
  detail::StrictJsonBuilder<Json> builder(text, root);
  const char *end = text.data() + text.size();
  detail::CountingIterator first{text.data(), &builder.numRead},
      last{end, &builder.numRead};
  if (Json::sax_parse(first, last, &builder))
    return std::nullopt;
  return builder.problem.value_or(JsonProblem{0, "expected JSON"});
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_JSONTEXT_H
