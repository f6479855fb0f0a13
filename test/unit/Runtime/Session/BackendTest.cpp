//===- BackendTest.cpp - A session on another backend ---------------------===//

#include "RecordingBackend.h"
#include "TestArtifact.h"
#include "heddle_rt/session.h"

#include <gtest/gtest.h>

using namespace heddle::runtime;

namespace {

TEST(Backend, ASessionMakesTheCallsOfAProgram) {
  TestArtifact artifact;
  RecordingBackend backend;
  SessionOptions options;
  options.backend = &backend;
  Expected<std::unique_ptr<Session>> session =
      Session::load(artifact.path, options);
  ASSERT_TRUE(session.ok()) << session.message();
  const std::vector<float> x = {1, 10, 2, 20, 100, 1000, 200, 2000};
  std::vector<int32_t> who(4);
  for (std::vector<std::string> &calls : backend.calls)
    calls.clear(); // those of loading
  Status status =
      (*session)->run("step", {bytesOf(x)}, {{}, writableBytesOf(who)});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(backend.calls.size(), 4u);
  for (const std::vector<std::string> &calls : backend.calls)
    EXPECT_EQ(calls,
              (std::vector<std::string>{
                  "stream 0: launch of 3 blocks by 1 with 3 buffers",
                  "stream 0: all_reduce of 1 f32 in group 0", "synchronize"}));
  // Arguments, results and variables go through the device's memory.
  EXPECT_EQ(who, (std::vector<int32_t>{0, 1, 10, 11}));
  int64_t steps = 0;
  ASSERT_TRUE((*session)->readVariable("steps", writableBytesOf(steps)).ok());
  EXPECT_EQ(steps, 8);
}

} // namespace
