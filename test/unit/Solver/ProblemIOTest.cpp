//===- ProblemIOTest.cpp - The contest's JSON form ------------------------===//

#include "heddle/Solver/ProblemIO.h"

#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <zlib.h>

namespace heddle::solver {
namespace {

const char *const example = R"({"problem": {"name": "example",
  "nodes": {"intervals": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],
            "costs": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
            "usages": [[10], [25, 25], [15, 20, 15], [10, 10], [15]]},
  "edges": {"nodes": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],
            "costs": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30],
                      [70, 60]]},
  "usage_limit": 50}})";

std::string replaced(std::string from, const std::string &to) {
  std::string text = example;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

template <typename T> std::string errorOf(llvm::Expected<T> value) {
  return value ? "" : llvm::toString(value.takeError());
}
std::string errorOf(const std::string &text) {
  return errorOf(parseProblem(text));
}

TEST(ProblemIO, ReadsTheContestsExample) {
  auto p = parseProblem(example);
  ASSERT_TRUE(bool(p)) << llvm::toString(p.takeError());
  EXPECT_EQ(p->name, "example");
  ASSERT_EQ(p->nodes.size(), 5u);
  EXPECT_EQ(p->nodes[2].live, (Interval{50, 120}));
  EXPECT_EQ(p->nodes[2].costs, (std::vector<Cost>{25, 45, 35}));
  EXPECT_EQ(p->nodes[2].usages, (std::vector<Usage>{15, 20, 15}));
  ASSERT_EQ(p->edges.size(), 5u);
  EXPECT_EQ(p->edges[2].nodes, (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(p->usageLimit, 50);
  // The contest's README computes the cost of this assignment.
  auto value = evaluate(*p, {0, 0, 2, 1, 0});
  ASSERT_TRUE(bool(value));
  EXPECT_EQ(value->total, 15 + 55 + 35 + 75 + 95 + 30 + 40 + 10 + 30 + 60);
  EXPECT_TRUE(value->isFeasible());
}

TEST(ProblemIO, PrintsWhatItReads) {
  std::string printed = printProblem(*parseProblem(example));
  EXPECT_EQ(printProblem(*parseProblem(printed)), printed);
}

TEST(ProblemIO, LimitAndNameMayBeAbsent) {
  auto p = parseProblem(replaced(",\n  \"usage_limit\": 50", ""));
  ASSERT_TRUE(bool(p)) << llvm::toString(p.takeError());
  EXPECT_FALSE(p->usageLimit);
  EXPECT_EQ(errorOf(replaced("\"name\": \"example\",", "")), "");
}

TEST(ProblemIO, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(
      errorOf("{\n  \"problem\": NaN}"),
      "line 2, column 14: expected JSON: syntax error while parsing value - "
      "invalid literal; last read: '\"problem\": N'");
  EXPECT_EQ(errorOf("[]"),
            "the file: expected an object with the key problem, got []");
  EXPECT_EQ(errorOf(std::string(100000, '[')),
            "line 1, column 65: expected at most 64 lists and objects within "
            "one another, got more");
  EXPECT_EQ(errorOf(replaced("\"name\"", "\"nodes\": 1, \"name\"")),
            "line 2, column 3: expected each key once, got \"nodes\" twice");
  EXPECT_EQ(errorOf(replaced("\"example\"", "7")),
            "problem.name: expected a string, got 7");
  EXPECT_EQ(errorOf(replaced("\"nodes\": {", "\"nods\": {")),
            "problem.nods: expected one of name, nodes, edges, usage_limit, "
            "got an unknown key");
  EXPECT_EQ(
      errorOf(replaced("{\"problem\"", "{\"usage_limit\": 5, \"problem\"")),
      "the file.usage_limit: expected one of problem, got an unknown "
      "key");
  EXPECT_EQ(errorOf(replaced("\"intervals\": [[30, 70]", "\"intervals\": [30")),
            "nodes.intervals[0]: expected an array, got 30");
  EXPECT_EQ(errorOf(replaced("[30, 70]", "[30]")),
            "nodes.intervals[0]: expected [begin, end], got [30]");
  EXPECT_EQ(errorOf(replaced("[30, 70]", "[70, 30]")),
            "nodes.intervals[0]: expected 0 <= begin <= end, got [70, 30]");
  EXPECT_EQ(errorOf(replaced("[15], [55, 65]", "[15], [55, \"x\"]")),
            "nodes.costs[1][1]: expected a 64-bit integer, got \"x\"");
  EXPECT_EQ(errorOf(replaced("[15], [55", "[1.5], [55")),
            "nodes.costs[0][0]: expected a 64-bit integer, got 1.5");
  EXPECT_EQ(errorOf(replaced("[15], [55", "[9223372036854775808], [55")),
            "nodes.costs[0][0]: expected a 64-bit integer, got "
            "9223372036854775808");
  EXPECT_EQ(errorOf(replaced(", [95]]", "]")),
            "nodes.costs: expected 5 entries as in nodes.intervals, got 4");
  EXPECT_EQ(errorOf(replaced("[[0, 1]", "[[0, -1]")),
            "edges.nodes[0][1]: expected a node number, got -1");
  EXPECT_EQ(errorOf(replaced("[[0, 1]", "[[0, 4294967296]")),
            "edges.nodes[0][1]: expected a node number, got 4294967296");
  EXPECT_EQ(errorOf(replaced("[[0, 1]", "[[0, 5]")),
            "edges.nodes[0]: expected a node below 5, got 5");
  EXPECT_EQ(errorOf(replaced("[30, 40]", "[30]")),
            "edges.costs[0]: expected 2 entries, the product of its nodes' "
            "strategies, got 1");
  EXPECT_EQ(errorOf(replaced("\"usage_limit\": 50", "\"usage_limit\": null")),
            "usage_limit: expected a 64-bit integer, got null");
  EXPECT_EQ(errorOf(replaced("\"usage_limit\": 50", "\"usage_limit\": 1e30")),
            "usage_limit: expected a 64-bit integer, got 1e+30");
}

TEST(ProblemIO, AssignmentsRoundTrip) {
  auto a = parseAssignment("[0, 3, 2]");
  ASSERT_TRUE(bool(a));
  EXPECT_EQ(printAssignment(*a), "[0, 3, 2]");
  EXPECT_EQ(errorOf(parseAssignment("{}")),
            "assignment: expected an array of strategy numbers, got {}");
  EXPECT_EQ(errorOf(parseAssignment("[0, 1.5]")),
            "assignment[1]: expected a 32-bit integer, got 1.5");
  EXPECT_EQ(errorOf(parseAssignment("[0, 99999999999]")),
            "assignment[1]: expected a 32-bit integer, got 99999999999");
  EXPECT_EQ(errorOf(parseAssignment("[-4294967296]")),
            "assignment[0]: expected a 32-bit integer, got -4294967296");
}

TEST(ProblemIO, ReadsGzipAndPlainFiles) {
  std::string path = testing::TempDir() + "heddle-solver-io-test";
  gzFile out = gzopen(path.c_str(), "wb");
  gzputs(out, example);
  gzclose(out);
  EXPECT_EQ(*readFile(path), example);
  std::ofstream(path) << example;
  EXPECT_EQ(*readFile(path), example);
  std::remove(path.c_str());
  EXPECT_EQ(errorOf(readFile(path)),
            "'" + path +
                "': expected a readable file, got: No such file or directory");
}

} // namespace
} // namespace heddle::solver
