//===- CommunicatorErrorTest.cpp - Conformance suite, errors --------------===//
//
// Errors of collectives and transfers on every backend: who is missing, who has
// failed, and who calls something else.
//
//===----------------------------------------------------------------------===//

#include "World.h"

#include <mutex>

using namespace heddle::runtime;

namespace {

class CommunicatorErrorTest : public CommunicatorSuite {};

/// Runs `body` on all ranks and returns each rank's error message.
template <typename Body>
std::vector<std::string> messages(World &world, Body &&body) {
  std::vector<std::string> result(4);
  std::mutex mutex;
  world.run([&](int32_t rank, Communicator &communicator) {
    Status status = body(rank, communicator);
    if (!status.ok())
      communicator.abort(status); // as a device does after an error
    std::lock_guard lock(mutex);
    result[size_t(rank)] = status.message();
  });
  return result;
}

TEST_P(CommunicatorErrorTest, AHungRankIsNamedByEverySurvivor) {
  WorldOptions options{{{"x", 4}}, {{0}}, std::chrono::milliseconds(300)};
  std::vector<std::string> got =
      messages(*world(options), [](int32_t rank, Communicator &communicator) {
        float x = 1;
        if (rank == 2)
          std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        return communicator.allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, &x, &x,
                                      1);
      });
  for (const std::string &message : got)
    EXPECT_EQ(message, "device 2 did not arrive at all_reduce within 0.3 s: it "
                       "is hung or dead, or runs another program");
}

TEST_P(CommunicatorErrorTest, AFailedRankStopsWhoWaits) {
  std::vector<std::string> got =
      messages(*four(), [](int32_t rank, Communicator &communicator) -> Status {
        float x = 1;
        if (rank == 1)
          return error("device 1: out of luck");
        return communicator.allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, &x, &x,
                                      1);
      });
  for (const std::string &message : got)
    EXPECT_EQ(message, "device 1: out of luck");
}

TEST_P(CommunicatorErrorTest, DisagreementIsAnError) {
  std::vector<std::string> got =
      messages(*four(), [](int32_t rank, Communicator &communicator) {
        float x[8] = {};
        return communicator.allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, x, x,
                                      rank == 3 ? 7 : 8);
      });
  for (const std::string &message : got)
    EXPECT_EQ(message,
              "devices disagree on a collective: device 0 calls all_reduce of "
              "8 f32, device 3 calls all_reduce of 7 f32");
}

TEST_P(CommunicatorErrorTest, AnotherTypeIsADisagreement) {
  std::vector<std::string> got =
      messages(*four(), [](int32_t rank, Communicator &communicator) {
        double x[8] = {};
        return communicator.broadcast(
            0, 0, rank == 1 ? HEDDLE_RT_I32 : HEDDLE_RT_F32, x, x, 8);
      });
  for (const std::string &message : got)
    EXPECT_EQ(message, "devices disagree on a collective: device 0 calls "
                       "broadcast of 8 f32, device 1 calls broadcast of 8 i32");
}

TEST_P(CommunicatorErrorTest, AnotherCollectiveIsADisagreement) {
  std::vector<std::string> got =
      messages(*four(), [](int32_t rank, Communicator &communicator) {
        float x[8] = {}, y[8];
        return rank == 2 ? communicator.broadcast(0, 0, HEDDLE_RT_F32, x, y, 8)
                         : communicator.allReduce(0, HEDDLE_RT_SUM,
                                                  HEDDLE_RT_F32, x, y, 8);
      });
  for (const std::string &message : got)
    EXPECT_EQ(message,
              "devices disagree on a collective: device 0 calls all_reduce of "
              "8 f32, device 2 calls broadcast of 8 f32");
}

TEST_P(CommunicatorErrorTest, AReceiveThatExpectsAnotherCountFails) {
  std::vector<std::string> got =
      messages(*four(), [](int32_t rank, Communicator &communicator) {
        float x[8] = {};
        return rank % 2
                   ? communicator.send(0, rank - 1, HEDDLE_RT_F32, x, rank)
                   : communicator.recv(0, rank + 1, HEDDLE_RT_F32, x, rank + 2);
      });
  EXPECT_TRUE(got[0] == "device 0 expects 2 f32 from device 1, which sends 1 "
                        "f32" ||
              got[0] == "device 2 expects 4 f32 from device 3, which sends 3 "
                        "f32")
      << got[0];
  EXPECT_EQ(got[2], got[0]); // the first error is everybody's
}

TEST_P(CommunicatorErrorTest, AReceiveNamesAMissingSender) {
  WorldOptions options{{{"x", 4}}, {{0}}, std::chrono::milliseconds(300)};
  std::vector<std::string> got =
      messages(*world(options), [](int32_t rank, Communicator &communicator) {
        float x = 1;
        return rank == 3 ? communicator.recv(0, 1, HEDDLE_RT_F32, &x, 1)
                         : Status::success();
      });
  EXPECT_EQ(got[3], "device 1 did not send to device 3 within 0.3 s");
}

TEST_P(CommunicatorErrorTest, AFailedRankStopsAReceive) {
  std::vector<std::string> got =
      messages(*four(), [](int32_t rank, Communicator &communicator) -> Status {
        float x = 1;
        if (rank == 1)
          return error("device 1: out of luck");
        return communicator.recv(0, 1, HEDDLE_RT_F32, &x, 1);
      });
  for (const std::string &message : got)
    EXPECT_EQ(message, "device 1: out of luck");
}

TEST_P(CommunicatorErrorTest, BadCalls) {
  four()->run([](int32_t, Communicator &communicator) {
    float x[8] = {};
    EXPECT_EQ(communicator.allReduce(1, HEDDLE_RT_SUM, HEDDLE_RT_F32, x, x, 8)
                  .message(),
              "group 1 does not exist: the artifact has 1");
    EXPECT_EQ(communicator.allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_I1, x, x, 8)
                  .message(),
              "elements of type i1 cannot be reduced");
    const int32_t sources[4] = {1, 0, 3, 2};
    auto inPlace = [](const std::string &operation) {
      return operation + ": expected different buffers for input and output";
    };
    EXPECT_EQ(communicator.allGather(0, HEDDLE_RT_F32, x, x, 2).message(),
              inPlace("all_gather"));
    EXPECT_EQ(
        communicator.reduceScatter(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, x, x, 2)
            .message(),
        inPlace("reduce_scatter"));
    EXPECT_EQ(communicator.allToAll(0, HEDDLE_RT_F32, x, x, 2).message(),
              inPlace("all_to_all"));
    EXPECT_EQ(
        communicator.permute(0, sources, HEDDLE_RT_F32, x, x, 2).message(),
        inPlace("permute"));
    EXPECT_EQ(communicator.broadcast(0, 4, HEDDLE_RT_F32, x, x, 1).message(),
              "broadcast: expected a root below 4, got 4");
    EXPECT_EQ(communicator.send(0, 4, HEDDLE_RT_F32, x, 1).message(),
              "expected another member of a group of 4 as peer, got 4");
  });
}

TEST(ThreadCommunicator, ARankOutsideOfAGroupIsNoMember) {
  ThreadPool pool(1, false);
  std::vector<std::vector<ThreadPool *>> pools(3, {&pool});
  auto ranks =
      makeThreadCommunicators({{"x", 3}}, {{{0}, {{0, {0, 2}}}}}, pools);
  EXPECT_EQ(ranks[0][0]->groupSize(0), 2);
  EXPECT_EQ(ranks[1][0]->groupSize(0), 0);
  EXPECT_EQ(ranks[0][0]->groupSize(1), 0);
  float x = 1;
  EXPECT_EQ(ranks[1][0]
                ->allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, &x, &x, 1)
                .message(),
            "group 0 has this rank as no member");
}

INSTANTIATE_TEST_SUITE_P(Backends, CommunicatorErrorTest,
                         testing::ValuesIn(communicatorBackends()),
                         [](const auto &info) { return info.param.name; });

} // namespace
