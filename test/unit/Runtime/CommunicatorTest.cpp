//===- CommunicatorTest.cpp - Conformance suite of communicators ----------===//
//
// Compares every backend with plain loops. Rank r contributes 10^r times a
// number that depends on the position, so the digits of a sum show if it misses
// or repeats a rank.
//
//===----------------------------------------------------------------------===//

#include "World.h"
#include "kernels/Convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mutex>

using namespace heddle::runtime;

namespace {

class CommunicatorTest : public testing::TestWithParam<Backend> {
protected:
  std::unique_ptr<World> world(const WorldOptions &options) {
    return GetParam().make(options);
  }
  /// Makes a world of four ranks in one group.
  std::unique_ptr<World> four(int cores = 1) {
    return world({{{"x", 4}}, {{0}}, std::chrono::seconds(60), cores});
  }
};

/// The input of rank `rank` at `position`.
float given(int64_t rank, int64_t position) {
  return float(std::pow(10, double(rank))) * float(1 + position % 7);
}

std::vector<float> input(int64_t rank, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[size_t(i)] = given(rank, i);
  return values;
}

TEST_P(CommunicatorTest, AllReduceSumsAndMaximizes) {
  for (int64_t count : {1, 3, 64, 1000, 70001})
    for (bool inPlace : {false, true})
      four(2)->run([&](int32_t rank, Communicator &communicator) {
        std::vector<float> in = input(rank, count), out(in.size(), -1);
        float *to = inPlace ? in.data() : out.data();
        ASSERT_TRUE(communicator
                        .allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, in.data(),
                                   to, count)
                        .ok());
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(to[i], 1111.0f * float(1 + i % 7));
        std::vector<float> again = input(rank, count);
        std::copy(again.begin(), again.end(), in.begin());
        in[0] = -in[0];
        ASSERT_TRUE(communicator
                        .allReduce(0, HEDDLE_RT_MAX, HEDDLE_RT_F32, in.data(),
                                   to, count)
                        .ok());
        ASSERT_EQ(to[0], -1.0f);
        for (int64_t i = 1; i < count; ++i)
          ASSERT_EQ(to[i], given(3, i));
      });
}

TEST_P(CommunicatorTest, AllReduceOfEveryType) {
  four()->run([&](int32_t rank, Communicator &communicator) {
    auto sum = [&](auto first, DType type) {
      decltype(first) values[5];
      for (int i = 0; i < 5; ++i)
        values[i] = decltype(first)(int64_t(given(rank, i)));
      ASSERT_TRUE(
          communicator.allReduce(0, HEDDLE_RT_SUM, type, values, values, 5)
              .ok());
      for (int i = 0; i < 5; ++i)
        ASSERT_EQ(values[i], decltype(first)(1111 * (1 + i)));
    };
    sum(double(), HEDDLE_RT_F64);
    sum(int32_t(), HEDDLE_RT_I32);
    sum(int64_t(), HEDDLE_RT_I64);
    sum(int8_t(), HEDDLE_RT_I8); // wraps around
    // Sums are computed in f32 and rounded once: 256 + 1 + 1 + 1 = 259 is 260
    // in bf16 (the tie between 258 and 260 goes to the even one). With rounding
    // in every step it would be 256.
    for (DType type : {HEDDLE_RT_BF16, HEDDLE_RT_F16}) {
      uint16_t value;
      float one = rank == 0 ? 256 : 1, got;
      convertFromF32(type, &one, &value, 1);
      ASSERT_TRUE(
          communicator.allReduce(0, HEDDLE_RT_SUM, type, &value, &value, 1)
              .ok());
      convertToF32(type, &value, &got, 1);
      ASSERT_EQ(got, type == HEDDLE_RT_BF16 ? 260.0f : 259.0f);
    }
  });
}

TEST_P(CommunicatorTest, SumsInTheOrderOfTheMembers) {
  // 1e8 + 1 - 1e8 + 1 is 1 or 2 in f32, depending on the order of the sum.
  const float values[4] = {1e8f, 1, -1e8f, 1};
  float expected = ((values[0] + values[1]) + values[2]) + values[3];
  for (int repeat = 0; repeat < 20; ++repeat)
    four()->run([&](int32_t rank, Communicator &communicator) {
      std::vector<float> x(300, values[rank]);
      ASSERT_TRUE(communicator
                      .allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, x.data(),
                                 x.data(), 300)
                      .ok());
      for (float element : x)
        ASSERT_EQ(element, expected);
    });
}

TEST_P(CommunicatorTest, GroupsOfAMesh) {
  WorldOptions options{{{"dp", 2}, {"tp", 2}}, {{0}, {1}, {1, 0}, {}}};
  world(options)->run([&](int32_t rank, Communicator &communicator) {
    auto sum = [&](int32_t group) {
      float x = given(rank, 0);
      EXPECT_TRUE(
          communicator.allReduce(group, HEDDLE_RT_SUM, HEDDLE_RT_F32, &x, &x, 1)
              .ok());
      return x;
    };
    EXPECT_EQ(sum(0), rank % 2 ? 1010 : 101);
    EXPECT_EQ(sum(1), rank / 2 ? 1100 : 11);
    EXPECT_EQ(sum(2), 1111);
    EXPECT_EQ(sum(3), given(rank, 0));
    // tp is the slow axis of group 2: its members are ranks 0, 2, 1, 3.
    float mine = float(rank), all[4];
    EXPECT_TRUE(
        communicator.allGather(2, HEDDLE_RT_F32, &mine, all, 1, 1, 4, 1).ok());
    const float expected[4] = {0, 2, 1, 3};
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(all[i], expected[i]);
  });
}

TEST_P(CommunicatorTest, AllGatherDropsPadding) {
  for (auto [outer, local, total, inner] : {std::array<int64_t, 4>{1, 3, 12, 5},
                                            {7, 3, 10, 5},
                                            {2, 2, 5, 1},
                                            {3, 1, 2, 4},
                                            {50, 16, 61, 300}})
    four(2)->run([&](int32_t rank, Communicator &communicator) {
      std::vector<float> in(size_t(outer * local * inner));
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t r = 0; r < local; ++r)
          for (int64_t i = 0; i < inner; ++i)
            in[size_t((o * local + r) * inner + i)] =
                float(o * 1000 + (rank * local + r) * 10 + i % 10);
      std::vector<float> out(size_t(outer * total * inner), -1);
      ASSERT_TRUE(communicator
                      .allGather(0, HEDDLE_RT_F32, in.data(), out.data(), outer,
                                 local, total, inner)
                      .ok());
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t r = 0; r < total; ++r)
          for (int64_t i = 0; i < inner; ++i)
            ASSERT_EQ(out[size_t((o * total + r) * inner + i)],
                      float(o * 1000 + r * 10 + i % 10));
    });
}

TEST_P(CommunicatorTest, ReduceScatterZeroesPadding) {
  for (auto [outer, local, total, inner] : {std::array<int64_t, 4>{1, 3, 12, 5},
                                            {7, 3, 10, 5},
                                            {2, 2, 5, 1},
                                            {3, 1, 2, 4},
                                            {2, 500, 1903, 90}})
    four(2)->run([&](int32_t rank, Communicator &communicator) {
      std::vector<float> in = input(rank, outer * total * inner);
      std::vector<float> out(size_t(outer * local * inner), -1);
      ASSERT_TRUE(communicator
                      .reduceScatter(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, in.data(),
                                     out.data(), outer, local, total, inner)
                      .ok());
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t r = 0; r < local; ++r)
          for (int64_t i = 0; i < inner; ++i) {
            int64_t row = rank * local + r;
            int64_t position = (o * total + row) * inner + i;
            ASSERT_EQ(out[size_t((o * local + r) * inner + i)],
                      row < total ? 1111.0f * float(1 + position % 7) : 0.0f);
          }
    });
}

/// An element's value tells its global coordinates.
float coordinateValue(int64_t o, int64_t s, int64_t m, int64_t c, int64_t i) {
  return float((((o * 16 + s) * 16 + m) * 16 + c) * 4 + i);
}

TEST_P(CommunicatorTest, AllToAllMovesTheShardedDimension) {
  for (bool splitFirst : {true, false})
    for (auto [outer, splitTotal, middle, concatTotal, inner] :
         {std::array<int64_t, 5>{1, 4, 1, 4, 1},
          {2, 8, 3, 4, 2},
          {2, 7, 3, 6, 2},
          {1, 3, 2, 9, 3},
          {2, 5, 1, 2, 1}})
      four()->run([&](int32_t rank, Communicator &communicator) {
        int64_t splitLocal = (splitTotal + 3) / 4;
        int64_t concatLocal = (concatTotal + 3) / 4;
        auto index = [&](int64_t o, int64_t s, int64_t m, int64_t c, int64_t i,
                         int64_t splits, int64_t concats) {
          int64_t first = splitFirst ? s : c, second = splitFirst ? c : s;
          int64_t firsts = splitFirst ? splits : concats;
          int64_t seconds = splitFirst ? concats : splits;
          return size_t(
              (((o * firsts + first) * middle + m) * seconds + second) * inner +
              i);
        };
        std::vector<float> in(
            size_t(outer * splitTotal * middle * concatLocal * inner));
        std::vector<float> out(
            size_t(outer * splitLocal * middle * concatTotal * inner), -1);
        auto each = [&](int64_t splits, int64_t concats, auto body) {
          for (int64_t o = 0; o < outer; ++o)
            for (int64_t s = 0; s < splits; ++s)
              for (int64_t m = 0; m < middle; ++m)
                for (int64_t c = 0; c < concats; ++c)
                  for (int64_t i = 0; i < inner; ++i)
                    body(o, s, m, c, i);
        };
        each(splitTotal, concatLocal,
             [&](auto o, auto s, auto m, auto c, auto i) {
               in[index(o, s, m, c, i, splitTotal, concatLocal)] =
                   coordinateValue(o, s, m, rank * concatLocal + c, i);
             });
        ASSERT_TRUE(communicator
                        .allToAll(0, HEDDLE_RT_F32, in.data(), out.data(),
                                  {splitFirst, outer, splitTotal, splitLocal,
                                   middle, concatLocal, concatTotal, inner})
                        .ok());
        each(splitLocal, concatTotal,
             [&](auto o, auto s, auto m, auto c, auto i) {
               int64_t global = rank * splitLocal + s;
               ASSERT_EQ(out[index(o, s, m, c, i, splitLocal, concatTotal)],
                         global < splitTotal
                             ? coordinateValue(o, global, m, c, i)
                             : 0);
             });
      });
}

TEST_P(CommunicatorTest, Broadcast) {
  for (bool inPlace : {false, true})
    four()->run([&](int32_t rank, Communicator &communicator) {
      for (int32_t root = 0; root < 4; ++root) {
        std::vector<float> in = input(rank, 100), out(100, -1);
        float *to = inPlace ? in.data() : out.data();
        ASSERT_TRUE(
            communicator.broadcast(0, root, HEDDLE_RT_F32, in.data(), to, 100)
                .ok());
        for (int64_t i = 0; i < 100; ++i)
          ASSERT_EQ(to[i], given(root, i));
      }
    });
}

TEST_P(CommunicatorTest, PermuteAlsoInPlace) {
  constexpr int64_t count = 200'001; // more than one block
  const int32_t sources[4] = {2, 0, -1, 1};
  for (bool inPlace : {false, true})
    four()->run([&](int32_t rank, Communicator &communicator) {
      std::vector<float> in = input(rank, count), out(count, -1);
      float *to = inPlace ? in.data() : out.data();
      ASSERT_TRUE(
          communicator.permute(0, sources, HEDDLE_RT_F32, in.data(), to, count)
              .ok());
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(to[i], sources[rank] < 0 ? 0 : given(sources[rank], i));
    });
}

TEST_P(CommunicatorTest, SendAndReceive) {
  four()->run([&](int32_t rank, Communicator &communicator) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<float> mine = input(rank, 10), other(10);
      int32_t peer = rank ^ 1;
      auto send = [&] {
        return communicator.send(0, peer, HEDDLE_RT_F32, mine.data(), 10);
      };
      auto receive = [&] {
        return communicator.recv(0, peer, HEDDLE_RT_F32, other.data(), 10);
      };
      ASSERT_TRUE((rank % 2 ? receive() : send()).ok());
      ASSERT_TRUE((rank % 2 ? send() : receive()).ok());
      ASSERT_EQ(other, input(peer, 10));
    }
  });
}

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

TEST_P(CommunicatorTest, AHungRankIsNamedByEverySurvivor) {
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

TEST_P(CommunicatorTest, AFailedRankStopsWhoWaits) {
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

TEST_P(CommunicatorTest, DisagreementIsAnError) {
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

TEST_P(CommunicatorTest, BadCalls) {
  four()->run([](int32_t, Communicator &communicator) {
    float x[8] = {};
    EXPECT_EQ(communicator.allReduce(1, HEDDLE_RT_SUM, HEDDLE_RT_F32, x, x, 8)
                  .message(),
              "group 1 does not exist: the artifact has 1");
    EXPECT_EQ(communicator.allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_I1, x, x, 8)
                  .message(),
              "elements of type i1 cannot be reduced");
    EXPECT_EQ(
        communicator.allGather(0, HEDDLE_RT_F32, x, x, 1, 1, 5, 1).message(),
        "all_gather: expected at most 4 rows from 4 members of 1, got 5");
    EXPECT_EQ(communicator.broadcast(0, 4, HEDDLE_RT_F32, x, x, 1).message(),
              "broadcast: expected a root below 4, got 4");
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends, CommunicatorTest,
    testing::Values(Backend{
        "threads",
        [](const WorldOptions &options) -> std::unique_ptr<World> {
          return std::make_unique<ThreadWorld>(options);
        }}),
    [](const auto &info) { return info.param.name; });

} // namespace
