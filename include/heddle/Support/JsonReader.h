//===- JsonReader.h - Reads values of a JSON file ---------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_JSONREADER_H
#define HEDDLE_SUPPORT_JSONREADER_H

#include "heddle/Support/JsonText.h"

namespace heddle {

/// The base of classes that read one kind of file. A value has a path for
/// messages, such as `$.machines[0]`. After the first problem, reads return
/// defaults, so a reader looks for problems at its end only.
class JsonReader {
public:
  using Json = nlohmann::json;

  /// `source` names the text in messages.
  explicit JsonReader(std::string source) : source(std::move(source)) {}

protected:
  /// Parses a text; notes a problem with its line and column.
  Json parse(std::string_view text) {
    Json root;
    if (auto wrong = parseJson(text, root))
      problem =
          describePlace(source, text, wrong->offset) + ": " + wrong->message;
    return root;
  }

  bool hasProblem() const { return !problem.empty(); }
  void fail(const std::string &path, const std::string &message) {
    if (!hasProblem())
      problem = source + ": " + path + ": " + message;
  }

  /// Requires all keys but those in `optional`, and no others.
  void checkKeys(const Json &object, const std::string &path,
                 std::vector<std::string> required,
                 const std::vector<std::string> &optional = {}) {
    if (hasProblem())
      return;
    if (!object.is_object())
      return fail(path, "expected an object, got " + showJson(object));
    for (const std::string &key : required)
      if (!object.contains(key))
        return fail(path, "expected a key '" + key + "', got none");
    required.insert(required.end(), optional.begin(), optional.end());
    for (const auto &[key, value] : object.items())
      if (std::find(required.begin(), required.end(), key) == required.end()) {
        std::string names;
        for (const std::string &name : required)
          names += (names.empty() ? "" : ", ") + name;
        return fail(path, "expected one of the keys " + names + ", got '" +
                              key + "'");
      }
  }

  /// Calls body(value, path) for the values of a list.
  template <typename Body>
  void each(const Json &object, const std::string &path, const std::string &key,
            Body body) {
    if (hasProblem())
      return;
    const Json &list = object[key];
    std::string at = path + "." + key;
    if (!list.is_array())
      return fail(at, "expected a list, got " + showJson(list));
    for (size_t i = 0; i < list.size() && !hasProblem(); ++i)
      body(list[i], at + "[" + std::to_string(i) + "]");
  }

  std::string readText(const Json &object, const std::string &path,
                       const char *key) {
    if (hasProblem())
      return "";
    const Json &value = object[key];
    if (value.is_string() && !value.get_ref<const std::string &>().empty())
      return value.get<std::string>();
    fail(path + "." + key, "expected a text, got " + showJson(value));
    return "";
  }

  std::string source, problem;
};

} // namespace heddle

#endif // HEDDLE_SUPPORT_JSONREADER_H
