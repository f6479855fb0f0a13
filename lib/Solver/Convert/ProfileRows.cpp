//===- ProfileRows.cpp - Reading the rows of a profile --------------------===//

#include "Convert/ProfileRows.h"

namespace heddle::solver {

static constexpr int64_t kMaxInteger = 1'000'000;

void ProfileRow::fail(const char *key, const std::string &expected) {
  if (!failure.empty())
    return;
  auto found = row.find(key);
  failure = name + "." + key + ": expected " + expected + ", got " +
            (found == row.end() ? "nothing" : showJson(*found, kLongestShown));
}

const nlohmann::json *ProfileRow::find(const char *key) {
  auto found = row.find(key);
  return found == row.end() ? nullptr : &*found;
}

int64_t ProfileRow::integer(const char *key) {
  const nlohmann::json *found = find(key);
  if (found && found->is_number_integer() && found->get<int64_t>() >= 0 &&
      found->get<int64_t>() <= kMaxInteger)
    return found->get<int64_t>();
  fail(key, "an integer from 0 to " + std::to_string(kMaxInteger));
  return 0;
}

double ProfileRow::number(const char *key, double most) {
  const nlohmann::json *found = find(key);
  if (found && found->is_number() && found->get<double>() >= 0 &&
      found->get<double>() < most)
    return found->get<double>();
  fail(key, "a number from 0 to below " +
                std::to_string(static_cast<int64_t>(most)));
  return 0;
}

std::string ProfileRow::text(const char *key) {
  const nlohmann::json *found = find(key);
  if (found && found->is_string())
    return found->get<std::string>();
  fail(key, "a string");
  return {};
}

} // namespace heddle::solver
