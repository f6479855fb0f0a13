//===- StrictJson.cpp - JSON that says where it is wrong ------------------===//

#include "Problem/StrictJson.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace heddle::solver {

namespace {

using Json = nlohmann::json;

/// Deeper than any file of ours, shallow enough for recursion over a value.
constexpr size_t MaxDepth = 64;
/// Of a value or a key in a message.
constexpr size_t MaxShown = 60;

/// Builds the value while it watches keys and depth.
class Builder : public nlohmann::detail::json_sax_dom_parser<Json> {
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;

public:
  Builder(std::string_view Text, Json &Root)
      : Base(Root, /*allow_exceptions=*/false), Text(Text) {}

  bool start_object(std::size_t Count) {
    Keys.emplace_back();
    return open() && Base::start_object(Count);
  }
  bool end_object() {
    Keys.pop_back();
    --Depth;
    return Base::end_object();
  }
  bool start_array(std::size_t Count) {
    return open() && Base::start_array(Count);
  }
  bool end_array() {
    --Depth;
    return Base::end_array();
  }
  bool key(std::string &Key) {
    if (Keys.back().insert(Key).second)
      return Base::key(Key);
    Failure = Error{Key.substr(0, MaxShown) +
                    ": expected one value, got the key twice in an object"};
    return false;
  }
  template <typename Exception>
  bool parse_error(std::size_t Position, const std::string &,
                   const Exception &) {
    std::string_view Before = Text.substr(0, Position ? Position - 1 : 0);
    auto Line = std::ranges::count(Before, '\n') + 1;
    size_t LineStart = Before.rfind('\n') + 1; // npos + 1 is 0
    const char *Got = Text.empty()                   ? "an empty text"
                      : Before.size() == Text.size() ? "the end of the text"
                                                     : "something else";
    Failure = Error{"line " + std::to_string(Line) + ", column " +
                    std::to_string(Before.size() - LineStart + 1) +
                    ": expected JSON, got " + Got};
    return false;
  }

  std::optional<Error> Failure;

private:
  bool open() {
    if (++Depth <= MaxDepth)
      return true;
    Failure = Error{"expected at most " + std::to_string(MaxDepth) +
                    " nested arrays and objects, got more"};
    return false;
  }

  std::string_view Text;
  std::vector<std::set<std::string>> Keys; ///< Of the open objects.
  size_t Depth = 0;
};

} // namespace

Expected<Json> parseStrictJson(std::string_view Text) {
  Json Root;
  Builder B(Text, Root);
  if (!Json::sax_parse(Text, &B))
    return B.Failure.value_or(Error{"expected JSON, got something else"});
  return Root;
}

std::string abbreviate(const Json &Value) {
  // Only the beginning is shown: a table may have millions of entries.
  if (Value.is_structured() && Value.size() > MaxShown)
    return std::string(Value.is_array() ? "an array" : "an object") + " of " +
           std::to_string(Value.size()) + " entries";
  std::string Text = Value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (Text.size() > MaxShown)
    Text = Text.substr(0, MaxShown) + "...";
  return Text;
}

} // namespace heddle::solver
