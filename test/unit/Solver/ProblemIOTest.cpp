//===- ProblemIOTest.cpp - The contest's JSON form ------------------------===//

#include "heddle/Solver/ProblemIO.h"

#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <zlib.h>

namespace heddle::solver {
namespace {

const char *const Example = R"({"problem": {"name": "example",
  "nodes": {"intervals": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],
            "costs": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
            "usages": [[10], [25, 25], [15, 20, 15], [10, 10], [15]]},
  "edges": {"nodes": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],
            "costs": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30],
                      [70, 60]]},
  "usage_limit": 50}})";

std::string replaced(std::string From, const std::string &To) {
  std::string Text = Example;
  size_t At = Text.find(From);
  EXPECT_NE(At, std::string::npos) << From;
  return Text.replace(At, From.size(), To);
}

std::string errorOf(const std::string &Text) {
  auto P = parseProblem(Text);
  return P ? "" : P.error().Message;
}

TEST(ProblemIO, ReadsTheContestsExample) {
  auto P = parseProblem(Example);
  ASSERT_TRUE(bool(P)) << P.error().Message;
  EXPECT_EQ(P->Name, "example");
  ASSERT_EQ(P->Nodes.size(), 5u);
  EXPECT_EQ(P->Nodes[2].Live, (Interval{50, 120}));
  EXPECT_EQ(P->Nodes[2].Costs, (std::vector<Cost>{25, 45, 35}));
  EXPECT_EQ(P->Nodes[2].Usages, (std::vector<Usage>{15, 20, 15}));
  ASSERT_EQ(P->Edges.size(), 5u);
  EXPECT_EQ(P->Edges[2].Nodes, (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(P->UsageLimit, 50);
  // The contest's README works this assignment out.
  auto Value = evaluate(*P, {0, 0, 2, 1, 0});
  ASSERT_TRUE(bool(Value));
  EXPECT_EQ(Value->Total, 15 + 55 + 35 + 75 + 95 + 30 + 40 + 10 + 30 + 60);
  EXPECT_TRUE(Value->feasible());
}

TEST(ProblemIO, PrintsWhatItReads) {
  std::string Printed = printProblem(*parseProblem(Example));
  EXPECT_EQ(printProblem(*parseProblem(Printed)), Printed);
}

TEST(ProblemIO, LimitAndNameMayBeAbsent) {
  auto P = parseProblem(replaced(",\n  \"usage_limit\": 50", ""));
  ASSERT_TRUE(bool(P)) << P.error().Message;
  EXPECT_FALSE(P->UsageLimit);
  EXPECT_EQ(errorOf(replaced("\"name\": \"example\",", "")), "");
}

TEST(ProblemIO, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(errorOf("{\n  \"problem\": NaN}"),
            "line 2, column 14: expected JSON, got something else");
  EXPECT_EQ(errorOf("[]"),
            "the file: expected an object with the key problem, got []");
  EXPECT_EQ(errorOf(std::string(100000, '[')),
            "expected at most 64 nested arrays and objects, got more");
  EXPECT_EQ(errorOf(replaced("\"name\"", "\"nodes\": 1, \"name\"")),
            "nodes: expected one value, got the key twice in an object");
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
  auto A = parseAssignment("[0, 3, 2]");
  ASSERT_TRUE(bool(A));
  EXPECT_EQ(printAssignment(*A), "[0, 3, 2]");
  EXPECT_FALSE(parseAssignment("{}"));
  EXPECT_FALSE(parseAssignment("[0, 1.5]"));
  EXPECT_EQ(parseAssignment("[0, 99999999999]").error().Message,
            "assignment[1]: expected a 32-bit integer, got 99999999999");
  EXPECT_EQ(parseAssignment("[-4294967296]").error().Message,
            "assignment[0]: expected a 32-bit integer, got -4294967296");
}

TEST(ProblemIO, ReadsGzipAndPlainFiles) {
  std::string Path = testing::TempDir() + "heddle-solver-io-test";
  gzFile Out = gzopen(Path.c_str(), "wb");
  gzputs(Out, Example);
  gzclose(Out);
  EXPECT_EQ(*readFile(Path), Example);
  std::ofstream(Path) << Example;
  EXPECT_EQ(*readFile(Path), Example);
  std::remove(Path.c_str());
  EXPECT_FALSE(readFile(Path));
}

} // namespace
} // namespace heddle::solver
