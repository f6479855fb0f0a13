//===- JsonReader.h - Typed values out of JSON ------------------*- C++ -*-===//
//
// Reads values at paths such as `variables[3].shape[1]`. After the first error
// every read returns a default, so callers check `status` once, at the end.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_MANIFEST_JSONREADER_H
#define HEDDLE_RT_MANIFEST_JSONREADER_H

#include "heddle_rt/status.h"
#include "support/Message.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace heddle::runtime {

using Json = nlohmann::json;

class JsonReader {
public:
  /// The first error.
  Status status;

  void fail(const std::string &path, std::string_view expected,
            const std::string &got);

  /// Returns the member `key` of an object, or null. A missing member is an
  /// error if `required`.
  const Json *member(const Json &object, const std::string &path,
                     const char *key, bool required = true);

  std::string string(const Json &object, const std::string &path,
                     const char *key);
  /// Reads a 64-bit integer of at least `least`.
  int64_t integer(const Json &object, const std::string &path, const char *key,
                  int64_t least);
  int64_t toInteger(const Json &value, const std::string &path, int64_t least);
  /// Reads a finite number.
  double number(const Json &object, const std::string &path, const char *key);

  /// Calls body(element, path) for each element of an array.
  template <typename Body>
  void each(const Json &array, const std::string &path, Body &&body) {
    if (!array.is_array())
      return fail(path, "an array", describe(array));
    for (size_t i = 0; i < array.size() && status.ok(); ++i)
      body(array[i], concat(path, "[", i, "]"));
  }
  template <typename Body>
  void each(const Json &object, const std::string &path, const char *key,
            Body &&body) {
    if (const Json *array = member(object, path, key))
      each(*array, join(path, key), body);
  }
  template <typename Body>
  void eachObject(const Json &object, const std::string &path, const char *key,
                  Body &&body) {
    each(object, path, key, [&](const Json &element, const std::string &at) {
      if (element.is_object())
        body(element, at);
      else
        fail(at, "an object", describe(element));
    });
  }

  static std::string join(const std::string &path, std::string_view key);
  /// Returns a value as text for an error: a number or a string as it is, any
  /// other value as its type.
  static std::string describe(const Json &value);
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_MANIFEST_JSONREADER_H
