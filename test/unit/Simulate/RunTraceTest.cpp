//===- RunTraceTest.cpp - Traces of several runs --------------------------===//

#include "heddle/Simulate/RunTrace.h"
#include "gtest/gtest.h"

using namespace heddle;

namespace {

/// The trace of two runs on two ranks.
RunTrace makeTrace(std::string program, int64_t devices = 2) {
  RunTrace trace;
  trace.devices = devices;
  trace.program = std::move(program);
  for (int64_t run : {0, 1})
    for (int64_t rank : {0, 1})
      trace.tables.push_back({"step", rank, run, double(run), 1});
  return trace;
}

TEST(RunTrace, Appends) {
  RunTrace trace;
  EXPECT_FALSE(trace.append(makeTrace("a")));
  EXPECT_FALSE(trace.append(makeTrace("a")));
  EXPECT_EQ(trace.devices, 2);
  EXPECT_EQ(trace.program, "a");
  ASSERT_EQ(trace.tables.size(), 8u);
  EXPECT_EQ(trace.tables.back().run, 3);
}

TEST(RunTrace, RefusesAnotherProgram) {
  RunTrace trace = makeTrace("a");
  EXPECT_EQ(llvm::toString(trace.append(makeTrace("b"))),
            "expected a later trace of the program with the fingerprint a, got "
            "one of b");
  EXPECT_EQ(llvm::toString(trace.append(makeTrace("a", 4))),
            "expected a later trace of the same program on 2 devices, got one "
            "on 4");
  EXPECT_EQ(trace.program, "a");
  EXPECT_EQ(trace.tables.size(), 4u);
}

// A part of the runs without a fingerprint may be of any program.
TEST(RunTrace, ForgetsAnUncertainFingerprint) {
  RunTrace trace = makeTrace("a");
  EXPECT_FALSE(trace.append(makeTrace("")));
  EXPECT_EQ(trace.program, "");
  EXPECT_EQ(trace.tables.size(), 8u);
}

} // namespace
