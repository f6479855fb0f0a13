//===- CApiTest.cpp - Sessions from C -------------------------------------===//

#include "TestArtifact.h"
#include "heddle_rt/c_api.h"

#include <gtest/gtest.h>

#include <vector>

using namespace heddle::runtime;

namespace {

TEST(CApi, NullPointersAreErrors) {
  char error[200] = "";
  EXPECT_EQ(heddle_rt_session_load(nullptr, 1, error, sizeof error), nullptr);
  EXPECT_STREQ(error, "expected a folder, got a null pointer");
  EXPECT_EQ(heddle_rt_session_run(nullptr, "step", nullptr, 0, nullptr, 0,
                                  error, sizeof error),
            1);
  EXPECT_STREQ(error, "expected a session, got a null pointer");

  TestArtifact artifact;
  heddle_rt_session *session =
      heddle_rt_session_load(artifact.path.c_str(), 1, error, sizeof error);
  ASSERT_TRUE(session) << error;
  EXPECT_EQ(heddle_rt_session_run(session, nullptr, nullptr, 0, nullptr, 0,
                                  error, sizeof error),
            1);
  EXPECT_STREQ(error, "expected a program's name, got a null pointer");
  EXPECT_EQ(heddle_rt_session_read_variable(session, nullptr, nullptr, 0, error,
                                            sizeof error),
            1);
  EXPECT_STREQ(error, "expected a variable's name, got a null pointer");
  std::vector<float> weight(30);
  EXPECT_EQ(heddle_rt_session_read_variable(session, "weight", weight.data(),
                                            weight.size() * sizeof(float),
                                            error, sizeof error),
            0);
  heddle_rt_session_destroy(session);
}

} // namespace
