//===- ProfileRows.cpp - Reading the rows of a profile --------------------===//

#include "Convert/ProfileRows.h"

namespace heddle::solver {

static constexpr int64_t MaxInteger = 1'000'000;

void ProfileRow::fail(const char *Key, const std::string &Expected) {
  if (Failure)
    return;
  auto Found = Row.find(Key);
  Failure = Error{Name + "." + Key + ": expected " + Expected + ", got " +
                  (Found == Row.end() ? "nothing" : abbreviate(*Found))};
}

const nlohmann::json *ProfileRow::find(const char *Key) {
  auto Found = Row.find(Key);
  return Found == Row.end() ? nullptr : &*Found;
}

int64_t ProfileRow::integer(const char *Key) {
  const nlohmann::json *Found = find(Key);
  if (Found && Found->is_number_integer() && Found->get<int64_t>() >= 0 &&
      Found->get<int64_t>() <= MaxInteger)
    return Found->get<int64_t>();
  fail(Key, "an integer from 0 to " + std::to_string(MaxInteger));
  return 0;
}

double ProfileRow::number(const char *Key, double Most) {
  const nlohmann::json *Found = find(Key);
  if (Found && Found->is_number() && Found->get<double>() >= 0 &&
      Found->get<double>() < Most)
    return Found->get<double>();
  fail(Key, "a number from 0 to below " +
                std::to_string(static_cast<int64_t>(Most)));
  return 0;
}

std::string ProfileRow::text(const char *Key) {
  const nlohmann::json *Found = find(Key);
  if (Found && Found->is_string())
    return Found->get<std::string>();
  fail(Key, "a string");
  return {};
}

} // namespace heddle::solver
