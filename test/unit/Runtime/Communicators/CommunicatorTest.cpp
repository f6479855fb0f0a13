//===- CommunicatorTest.cpp - Conformance suite of communicators ----------===//
// Compares what collectives and transfers deliver with plain loops, on every
// backend. Rank r contributes 10^r times a number that depends on the position,
// so the digits of a sum show if it misses or repeats a rank.
// CommunicatorErrorTest.cpp tests errors.
//
//===----------------------------------------------------------------------===//

#include "World.h"
#include "backends/cpu/kernels/Convert.h"

#include <cmath>
#include <cstring>

using namespace heddle::runtime;

namespace {

class CommunicatorTest : public CommunicatorSuite {};

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
    EXPECT_TRUE(communicator.allGather(2, HEDDLE_RT_F32, &mine, all, 1).ok());
    const float expected[4] = {0, 2, 1, 3};
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(all[i], expected[i]);
  });
}

TEST_P(CommunicatorTest, AllGatherJoinsTheInputs) {
  for (int64_t count : {1, 3, 64, 70001})
    four(2)->run([&](int32_t rank, Communicator &communicator) {
      std::vector<float> in = input(rank, count), out(size_t(4 * count), -1);
      ASSERT_TRUE(
          communicator.allGather(0, HEDDLE_RT_F32, in.data(), out.data(), count)
              .ok());
      for (int64_t from = 0; from < 4; ++from)
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(out[size_t(from * count + i)], given(from, i));
    });
}

TEST_P(CommunicatorTest, ReduceScatterSplitsTheSum) {
  for (int64_t count : {1, 3, 64, 70001})
    four(2)->run([&](int32_t rank, Communicator &communicator) {
      std::vector<float> in = input(rank, 4 * count), out(size_t(count), -1);
      ASSERT_TRUE(communicator
                      .reduceScatter(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, in.data(),
                                     out.data(), count)
                      .ok());
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(out[size_t(i)], 1111.0f * float(1 + (rank * count + i) % 7));
      ASSERT_TRUE(communicator
                      .reduceScatter(0, HEDDLE_RT_MAX, HEDDLE_RT_F32, in.data(),
                                     out.data(), count)
                      .ok());
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(out[size_t(i)], given(3, rank * count + i));
    });
}

TEST_P(CommunicatorTest, AllToAllExchangesBlocks) {
  for (int64_t count : {1, 3, 64, 70001})
    four(2)->run([&](int32_t rank, Communicator &communicator) {
      std::vector<float> in(size_t(4 * count)), out(size_t(4 * count), -1);
      auto value = [&](int64_t from, int64_t to, int64_t i) {
        return float(from * 10 + to) + float(i % 97) / 128;
      };
      for (int64_t to = 0; to < 4; ++to)
        for (int64_t i = 0; i < count; ++i)
          in[size_t(to * count + i)] = value(rank, to, i);
      ASSERT_TRUE(
          communicator.allToAll(0, HEDDLE_RT_F32, in.data(), out.data(), count)
              .ok());
      for (int64_t from = 0; from < 4; ++from)
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(out[size_t(from * count + i)], value(from, rank, i));
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

TEST_P(CommunicatorTest, Permute) {
  constexpr int64_t count = 200'001;
  const int32_t sources[4] = {2, 0, -1, 1};
  four(2)->run([&](int32_t rank, Communicator &communicator) {
    std::vector<float> in = input(rank, count), out(count, -1);
    ASSERT_TRUE(
        communicator
            .permute(0, sources, HEDDLE_RT_F32, in.data(), out.data(), count)
            .ok());
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(out[size_t(i)],
                sources[rank] < 0 ? 0 : given(sources[rank], i));
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

TEST_P(CommunicatorTest, AllSendBeforeTheyReceive) {
  four()->run([&](int32_t rank, Communicator &communicator) {
    int32_t next = (rank + 1) % 4, previous = (rank + 3) % 4;
    for (int64_t repeat = 0; repeat < 20; ++repeat) {
      // Several messages of different sizes are under way.
      for (int64_t count : {10, 3, 1000}) {
        std::vector<float> mine = input(rank, count + repeat);
        ASSERT_TRUE(
            communicator
                .send(0, next, HEDDLE_RT_F32, mine.data(), count + repeat)
                .ok());
        mine.assign(mine.size(), -1); // it may be overwritten now
      }
      for (int64_t count : {10, 3, 1000}) {
        std::vector<float> got(size_t(count + repeat));
        ASSERT_TRUE(
            communicator
                .recv(0, previous, HEDDLE_RT_F32, got.data(), count + repeat)
                .ok());
        ASSERT_EQ(got, input(previous, count + repeat));
      }
    }
  });
}

constexpr DType allTypes[] = {HEDDLE_RT_F32, HEDDLE_RT_BF16, HEDDLE_RT_F16,
                              HEDDLE_RT_F64, HEDDLE_RT_I1,   HEDDLE_RT_I8,
                              HEDDLE_RT_I32, HEDDLE_RT_I64};

/// `count` elements of `type`; each byte tells the rank and the position.
std::vector<uint8_t> bytesFrom(int64_t rank, DType type, int64_t count) {
  std::vector<uint8_t> bytes(size_t(count) * byteSize(type));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = uint8_t(rank * 64 + int64_t(i) % 61);
  return bytes;
}

TEST_P(CommunicatorTest, MovesElementsOfEveryType) {
  constexpr int64_t count = 5;
  const int32_t sources[4] = {3, 0, 1, 2};
  auto threads = four();
  for (DType type : allTypes)
    threads->run([&](int32_t rank, Communicator &communicator) {
      std::vector<uint8_t> mine = bytesFrom(rank, type, count), all, blocks;
      // Block i of every rank's `blocks` is for member i.
      for (int64_t from = 0; from < 4; ++from) {
        std::vector<uint8_t> part = bytesFrom(from, type, count);
        all.insert(all.end(), part.begin(), part.end());
        blocks.insert(blocks.end(), mine.begin(), mine.end());
      }
      std::vector<uint8_t> got(all.size());
      ASSERT_TRUE(
          communicator.allGather(0, type, mine.data(), got.data(), count).ok());
      ASSERT_EQ(got, all);
      std::fill(got.begin(), got.end(), 0xff);
      ASSERT_TRUE(
          communicator.allToAll(0, type, blocks.data(), got.data(), count)
              .ok());
      ASSERT_EQ(got, all);
      got.assign(mine.size(), 0xff);
      ASSERT_TRUE(
          communicator.broadcast(0, 2, type, mine.data(), got.data(), count)
              .ok());
      ASSERT_EQ(got, bytesFrom(2, type, count));
      ASSERT_TRUE(
          communicator.permute(0, sources, type, mine.data(), got.data(), count)
              .ok());
      ASSERT_EQ(got, bytesFrom(sources[rank], type, count));
      if (rank == 0)
        ASSERT_TRUE(communicator.send(0, 3, type, mine.data(), count).ok());
      if (rank == 3) {
        ASSERT_TRUE(communicator.recv(0, 0, type, got.data(), count).ok());
        ASSERT_EQ(got, bytesFrom(0, type, count));
      }
    });
}

TEST_P(CommunicatorTest, ReduceScatterOfEveryType) {
  four()->run([&](int32_t rank, Communicator &communicator) {
    auto sum = [&](auto zero, DType type) {
      decltype(zero) values[12], part[3];
      for (int i = 0; i < 12; ++i)
        values[i] = decltype(zero)(int64_t(given(rank, i)));
      ASSERT_TRUE(
          communicator.reduceScatter(0, HEDDLE_RT_SUM, type, values, part, 3)
              .ok());
      for (int i = 0; i < 3; ++i)
        ASSERT_EQ(part[i], decltype(zero)(1111 * (1 + (rank * 3 + i) % 7)));
    };
    sum(double(), HEDDLE_RT_F64);
    sum(float(), HEDDLE_RT_F32);
    sum(int32_t(), HEDDLE_RT_I32);
    sum(int64_t(), HEDDLE_RT_I64);
    sum(int8_t(), HEDDLE_RT_I8); // wraps around
    for (DType type : {HEDDLE_RT_BF16, HEDDLE_RT_F16}) {
      uint16_t values[4], part;
      float one[4] = {1, 1, 1, 1}, got;
      if (rank == 0)
        std::fill(one, one + 4, 256.0f);
      convertFromF32(type, one, values, 4);
      ASSERT_TRUE(
          communicator.reduceScatter(0, HEDDLE_RT_SUM, type, values, &part, 1)
              .ok());
      convertToF32(type, &part, &got, 1);
      ASSERT_EQ(got, type == HEDDLE_RT_BF16 ? 260.0f : 259.0f);
    }
  });
}

TEST_P(CommunicatorTest, EmptyBuffersAreFine) {
  const int32_t sources[4] = {1, 0, 3, -1};
  four()->run([&](int32_t rank, Communicator &c) {
    float in = 5, out = 7;
    ASSERT_TRUE(c.allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, &in, &in, 0).ok());
    ASSERT_TRUE(c.allGather(0, HEDDLE_RT_F32, &in, &out, 0).ok());
    ASSERT_TRUE(
        c.reduceScatter(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, &in, &out, 0).ok());
    ASSERT_TRUE(c.allToAll(0, HEDDLE_RT_F32, &in, &out, 0).ok());
    ASSERT_TRUE(c.broadcast(0, 1, HEDDLE_RT_F32, &in, &out, 0).ok());
    ASSERT_TRUE(c.permute(0, sources, HEDDLE_RT_F32, &in, &out, 0).ok());
    ASSERT_TRUE((rank % 2 ? c.send(0, rank - 1, HEDDLE_RT_F32, &in, 0)
                          : c.recv(0, rank + 1, HEDDLE_RT_F32, &out, 0))
                    .ok());
    ASSERT_EQ(in, 5);
    ASSERT_EQ(out, 7);
  });
}

TEST_P(CommunicatorTest, AGroupOfOneCopies) {
  WorldOptions options{{{"x", 4}}, {{}}};
  const int32_t self[1] = {0}, none[1] = {-1};
  world(options)->run([&](int32_t rank, Communicator &c) {
    std::vector<float> in = input(rank, 30), out;
    auto fresh = [&] { return out.assign(30, -1), out.data(); };
    ASSERT_TRUE(
        c.allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, in.data(), fresh(), 30)
            .ok());
    ASSERT_EQ(out, in);
    ASSERT_TRUE(c.allGather(0, HEDDLE_RT_F32, in.data(), fresh(), 30).ok());
    ASSERT_EQ(out, in);
    ASSERT_TRUE(
        c.reduceScatter(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, in.data(), fresh(), 30)
            .ok());
    ASSERT_EQ(out, in);
    ASSERT_TRUE(c.allToAll(0, HEDDLE_RT_F32, in.data(), fresh(), 30).ok());
    ASSERT_EQ(out, in);
    ASSERT_TRUE(c.broadcast(0, 0, HEDDLE_RT_F32, in.data(), fresh(), 30).ok());
    ASSERT_EQ(out, in);
    ASSERT_TRUE(c.permute(0, self, HEDDLE_RT_F32, in.data(), fresh(), 30).ok());
    ASSERT_EQ(out, in);
    ASSERT_TRUE(c.permute(0, none, HEDDLE_RT_F32, in.data(), fresh(), 30).ok());
    ASSERT_EQ(out, std::vector<float>(30, 0));
  });
}

TEST_P(CommunicatorTest, OverlappingGroupsTakeTurns) {
  WorldOptions options{{{"dp", 2}, {"tp", 2}}, {{0}, {1}, {0, 1}}};
  world(options)->run([&](int32_t rank, Communicator &communicator) {
    for (int64_t repeat = 0; repeat < 40; ++repeat) {
      int64_t count = 1 + repeat * 37 % 300;
      std::vector<float> x = input(rank, count);
      auto sum = [&](int32_t group) {
        ASSERT_TRUE(communicator
                        .allReduce(group, HEDDLE_RT_SUM, HEDDLE_RT_F32,
                                   x.data(), x.data(), count)
                        .ok());
      };
      sum(0);
      sum(1);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(x[size_t(i)], 1111.0f * float(1 + i % 7));
      sum(2);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(x[size_t(i)], 4444.0f * float(1 + i % 7));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, CommunicatorTest,
                         testing::ValuesIn(communicatorBackends()),
                         [](const auto &info) { return info.param.name; });

} // namespace
