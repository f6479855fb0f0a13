//===- JsonReader.cpp - Typed values out of JSON --------------------------===//

#include "manifest/JsonReader.h"
#include "heddle/Support/JsonText.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heddle::runtime {

void JsonReader::fail(const std::string &path, std::string_view expected,
                      const std::string &got) {
  if (status.ok())
    status = errorOf(path, ": expected ", expected, ", got ", got);
}

std::string JsonReader::join(const std::string &path, std::string_view key) {
  return path.empty() ? std::string(key) : concat(path, ".", key);
}

std::string JsonReader::describe(const Json &value) {
  return value.is_number() || value.is_string() ? showJson(value)
                                                : value.type_name();
}

const Json *JsonReader::member(const Json &object, const std::string &path,
                               const char *key, bool required) {
  if (!status.ok())
    return nullptr;
  auto found = object.find(key);
  if (found != object.end())
    return &*found;
  if (required)
    fail(join(path, key), "a value", "nothing");
  return nullptr;
}

std::string JsonReader::string(const Json &object, const std::string &path,
                               const char *key) {
  const Json *value = member(object, path, key);
  if (!value)
    return {};
  if (value->is_string())
    return value->get_ref<const std::string &>();
  fail(join(path, key), "a string", describe(*value));
  return {};
}

int64_t JsonReader::toInteger(const Json &value, const std::string &path,
                              int64_t least) {
  bool fits =
      value.is_number_integer() &&
      !(value.is_number_unsigned() &&
        value.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()));
  if (fits && value.get<int64_t>() >= least)
    return value.get<int64_t>();
  fail(path,
       least == 1   ? "a positive integer"
       : least == 0 ? "a non-negative integer"
                    : "an integer",
       describe(value));
  return std::max<int64_t>(least, 1);
}

int64_t JsonReader::integer(const Json &object, const std::string &path,
                            const char *key, int64_t least) {
  const Json *value = member(object, path, key);
  return value ? toInteger(*value, join(path, key), least) : least;
}

double JsonReader::number(const Json &object, const std::string &path,
                          const char *key) {
  const Json *value = member(object, path, key);
  if (!value)
    return 0;
  if (value->is_number() && std::isfinite(value->get<double>()))
    return value->get<double>();
  fail(join(path, key), "a finite number", describe(*value));
  return 0;
}

} // namespace heddle::runtime
