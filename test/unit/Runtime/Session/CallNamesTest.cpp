//===- CallNamesTest.cpp - Which call of a program is which ---------------===//

#include "session/state/CallNames.h"

#include <gtest/gtest.h>

using namespace heddle::runtime;

namespace {

/// Returns the names of the calls of a run, "?" for unknown ones.
std::string namesOf(const CallNames &names, const char *program,
                    int64_t total) {
  std::string text;
  for (int64_t call = 0; call < total; ++call) {
    const nlohmann::json *item = names.find(program, call, total);
    text += item ? (*item)["call"].get<std::string>() : "?";
  }
  return text;
}

TEST(CallNames, CallsOfALoopRepeat) {
  CallNames names(R"({"p": [{"call": "a"},
    {"before": [{"call": "b"}, {"call": "c"}], "after": [{"call": "d"}]},
    {"call": "e"}]})");
  EXPECT_EQ(namesOf(names, "p", 4), "abce");
  EXPECT_EQ(namesOf(names, "p", 10), "abcdbcdbce");
  EXPECT_EQ(names.getIndex(names.find("p", 9, 10)), 4);
  EXPECT_EQ(names.getIndex(names.find("p", 6, 10)), 3);
  EXPECT_EQ(namesOf(names, "q", 1), "?");
}

TEST(CallNames, TheIterationsOfTwoLoopsAreUnknown) {
  CallNames names(R"({"p": [{"call": "a"},
    {"before": [{"call": "b"}], "after": []},
    {"before": [{"call": "c"}], "after": [{"call": "d"}]}]})");
  EXPECT_EQ(namesOf(names, "p", 3), "a??");
}

TEST(CallNames, DamagedTablesNameNothing) {
  for (const char *text : {"", "[1", "[]", R"({"p": 3})", R"({"p": [3]})"})
    EXPECT_EQ(namesOf(CallNames(text), "p", 1), "?") << text;
  EXPECT_EQ(namesOf(CallNames(nullptr), "p", 1), "?");
}

} // namespace
