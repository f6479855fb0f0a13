//===- AttentionTest.cpp - Attention against its definition ---------------===//

#include "AttentionCases.h"
#include "backends/cpu/CpuDevice.h"
#include "support/Message.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace heddle::runtime;

namespace {

/// Returns the L2 norm of the difference, divided by the norm of the expected
/// values plus `floor` per value. (With a single key, the gradient of q is zero
/// except for rounding, so it needs the floor.)
double relativeError(const std::vector<double> &got,
                     const std::vector<double> &expected, double floor) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    norm += std::isfinite(expected[i]) ? expected[i] * expected[i] : 0;
    if (got[i] != expected[i]) // equal infinities have no difference
      difference += (got[i] - expected[i]) * (got[i] - expected[i]);
  }
  return std::sqrt(difference) /
         (std::sqrt(norm) + floor * std::sqrt(double(got.size())));
}

void check(const AttentionCase &c) {
  SCOPED_TRACE(concat("batch ", c.batch, " queries ", c.queries, " keys ",
                      c.keys, " groups ", c.groups, " x ", c.groupSize,
                      " head ", c.head, " causal ", c.causal, " type ", c.type,
                      " dropout ", c.dropout));
  heddle_rt_attention_desc d = describe(c);
  AttentionNumbers expected = attentionInputs(c);
  AttentionNumbers got = runAttention(c, d, 7, expected, 2);
  attentionByDefinition(c, d, 7, expected);
  double floor = c.keys == 1 ? 1 : 0.05;
  double bound = c.type == HEDDLE_RT_F32 ? 2e-6 : 6e-3;
  EXPECT_LT(relativeError(got.o, expected.o, floor), bound);
  EXPECT_LT(relativeError(got.lse, expected.lse, floor), 2e-6);
  EXPECT_LT(relativeError(got.dq, expected.dq, floor), 2 * bound);
  EXPECT_LT(relativeError(got.dk, expected.dk, floor), 2 * bound);
  EXPECT_LT(relativeError(got.dv, expected.dv, floor), bound);
}

TEST(Attention, SizesThatDivideNothing) {
  for (int64_t length : {1, 2, 17, 64, 65, 130, 200})
    for (bool causal : {false, true})
      for (int64_t head : {64, 1, 20}) {
        AttentionCase c;
        c.queries = c.keys = length, c.causal = causal, c.head = head;
        check(c);
      }
  AttentionCase cross;
  cross.queries = 70, cross.keys = 131, cross.groups = 2;
  check(cross);
  AttentionCase longer;
  longer.queries = longer.keys = 600, longer.head = 16, longer.causal = true;
  check(longer);
}

TEST(Attention, Windows) {
  for (bool causal : {false, true})
    for (int64_t window : {1, 3, 64, 65, 100, 1000}) {
      AttentionCase c;
      c.batch = 2, c.queries = c.keys = 200, c.causal = causal;
      c.window = window;
      check(c);
      c.offsets = {0, 150, 30, 0, 0}; // as in a step of a ring
      check(c);
      c.offsets = {0, 30, 150, 0, 0};
      check(c);
    }
  AttentionCase longer; // more than one chunk of queries
  longer.queries = longer.keys = 1100, longer.head = 16, longer.window = 70;
  longer.causal = true;
  check(longer);
}

TEST(Attention, Masks) {
  for (heddle_rt_attention_mask mask :
       {HEDDLE_RT_MASK_SEEN, HEDDLE_RT_MASK_ADDED})
    for (int repeated = 0; repeated < 32; ++repeated) {
      AttentionCase c;
      c.batch = 2, c.queries = 70, c.keys = 131, c.groups = 2, c.groupSize = 3;
      c.mask = mask, c.causal = repeated % 3 == 0;
      c.window = repeated % 5 == 0 ? 40 : 0;
      c.offsets = {0, 60, 7, 0, 0};
      for (int i = 0; i < 5; ++i)
        c.repeats[i] = repeated >> i & 1;
      check(c);
    }
}

TEST(Attention, GroupedQueriesAndBatches) {
  for (bool causal : {false, true}) {
    AttentionCase c;
    c.batch = 2, c.queries = c.keys = 90, c.groups = 3, c.groupSize = 4;
    c.head = 32, c.causal = causal;
    check(c);
    c.type = HEDDLE_RT_BF16;
    check(c);
  }
}

TEST(Attention, Dropout) {
  for (float dropout : {0.1f, 0.75f})
    for (int32_t type : {HEDDLE_RT_F32, HEDDLE_RT_BF16}) {
      AttentionCase c;
      c.batch = 2, c.queries = c.keys = 77, c.groups = 2, c.groupSize = 2;
      c.causal = true, c.type = type, c.dropout = dropout;
      c.offsets = {1, 2, 2, 3, 1};
      check(c);
    }
}

TEST(Attention, ShardedPositions) {
  // Queries from position 100 and keys from 64: every query sees the first
  // keys, and the causal diagonal crosses the later ones.
  AttentionCase c;
  c.queries = 50, c.keys = 80, c.causal = true;
  c.offsets = {0, 100, 64, 0, 0};
  check(c);
  // The first 30 queries see no key at all.
  c.offsets = {0, 34, 64, 0, 0};
  check(c);
  AttentionNumbers got = runAttention(c, describe(c), 0, attentionInputs(c), 1);
  EXPECT_EQ(got.lse[29], -INFINITY);
  EXPECT_EQ(got.o[29 * 8], 0);
  EXPECT_TRUE(std::isfinite(got.lse[30]));
}

TEST(Attention, KeysBeyondTheEnd) {
  // The result is the same as without the padding, whatever the padding holds.
  for (bool causal : {false, true})
    for (int64_t beyond : {1, 20, 100, 130}) {
      AttentionCase padded, cut;
      padded.queries = cut.queries = 140, padded.keys = 130;
      padded.causal = cut.causal = causal;
      padded.offsets = cut.offsets = {0, 64, 64, 0, 0};
      padded.keysBeyond = beyond;
      cut.keys = std::max<int64_t>(130 - beyond, 1);
      AttentionNumbers in = attentionInputs(padded), less = in;
      size_t end = size_t(130 - beyond) * 8;
      for (auto *values : {&in.k, &in.v})
        std::fill(values->begin() + ptrdiff_t(end), values->end(), NAN);
      less.k.resize(size_t(cut.keys) * 8), less.v.resize(size_t(cut.keys) * 8);
      AttentionNumbers got = runAttention(padded, describe(padded), 0, in, 2);
      for (size_t i = end; i < got.dk.size(); ++i) {
        ASSERT_EQ(got.dk[i], 0);
        ASSERT_EQ(got.dv[i], 0);
      }
      if (beyond == 130) { // no key at all
        for (double lse : got.lse)
          ASSERT_EQ(lse, -INFINITY);
        for (double x : got.o)
          ASSERT_EQ(x, 0);
        for (double x : got.dq)
          ASSERT_EQ(x, 0);
        continue;
      }
      AttentionNumbers expected = runAttention(cut, describe(cut), 0, less, 2);
      got.dk.resize(end), got.dv.resize(end);
      EXPECT_EQ(got.o, expected.o);
      EXPECT_EQ(got.lse, expected.lse);
      EXPECT_EQ(got.dq, expected.dq);
      EXPECT_EQ(got.dk, expected.dk);
      EXPECT_EQ(got.dv, expected.dv);
    }
}

TEST(Attention, SameBitsOnAnyNumberOfCores) {
  AttentionCase c;
  c.batch = 3, c.queries = c.keys = 150, c.groups = 2, c.causal = true;
  c.dropout = 0.2f;
  AttentionNumbers in = attentionInputs(c),
                   first = runAttention(c, describe(c), 1, in, 1);
  for (int cores : {2, 5}) {
    AttentionNumbers other = runAttention(c, describe(c), 1, in, cores);
    EXPECT_EQ(first.o, other.o);
    EXPECT_EQ(first.dq, other.dq);
    EXPECT_EQ(first.dk, other.dk);
    EXPECT_EQ(first.dv, other.dv);
  }
}

TEST(Attention, FewHeadsOnManyCores) {
  // There is one (batch, group) for seven cores, so the backward pass splits it
  // into two parts. The result must have the bits of a run on one core.
  AttentionCase c;
  c.queries = 1100, c.keys = 1300, c.groupSize = 2, c.causal = true;
  c.offsets = {0, 200, 0, 0, 0};
  AttentionNumbers in = attentionInputs(c),
                   first = runAttention(c, describe(c), 1, in, 1),
                   other = runAttention(c, describe(c), 1, in, 7);
  EXPECT_EQ(first.o, other.o);
  EXPECT_EQ(first.dq, other.dq);
  EXPECT_EQ(first.dk, other.dk);
  EXPECT_EQ(first.dv, other.dv);
}

TEST(Attention, DropoutDoesNotChangeWithTheSharding) {
  // Compares the whole with a run on the second half of the batch and groups.
  AttentionCase whole;
  whole.batch = 2, whole.groups = 2, whole.groupSize = 2;
  whole.queries = whole.keys = 67, whole.dropout = 0.3f, whole.causal = true;
  AttentionCase part = whole;
  part.batch = part.groups = 1;
  part.offsets = {1, 0, 0, 1, 0};
  heddle_rt_attention_desc wholeDesc = describe(whole),
                           partDesc = describe(part);
  partDesc.global_groups = wholeDesc.global_groups;
  AttentionNumbers all = attentionInputs(whole), some = attentionInputs(part);
  RowIndex from{whole}, to{part};
  auto D = size_t(whole.head);
  auto eachRow = [&](auto query, auto key) {
    for (int64_t i = 0; i < whole.queries; ++i) {
      for (int64_t r = 0; r < 2; ++r)
        for (size_t e = 0; e < D; ++e)
          query(to.query(0, i, 0, r) * D + e, from.query(1, i, 1, r) * D + e);
      for (size_t e = 0; e < D; ++e)
        key(to.key(0, i, 0) * D + e, from.key(1, i, 1) * D + e);
    }
  };
  eachRow(
      [&](size_t a, size_t b) {
        some.q[a] = all.q[b];
        some.d_o[a] = all.d_o[b];
      },
      [&](size_t a, size_t b) {
        some.k[a] = all.k[b];
        some.v[a] = all.v[b];
      });
  all = runAttention(whole, wholeDesc, 9, all, 1);
  some = runAttention(part, partDesc, 9, some, 1);
  eachRow(
      [&](size_t a, size_t b) {
        ASSERT_EQ(some.o[a], all.o[b]);
        ASSERT_EQ(some.dq[a], all.dq[b]);
      },
      [&](size_t a, size_t b) {
        ASSERT_EQ(some.dk[a], all.dk[b]);
        ASSERT_EQ(some.dv[a], all.dv[b]);
      });
}

TEST(Attention, Errors) {
  heddle_rt_attention_offsets offsets{};
  auto messageOf = [&](const heddle_rt_attention_desc &d) {
    CpuDevice device(0, 1, false);
    EXPECT_EQ(heddle_rt_attention(&device, 0, &d, &offsets, nullptr, nullptr,
                                  nullptr, nullptr, nullptr, nullptr, nullptr),
              0);
    EXPECT_NE(heddle_rt_synchronize(&device), 0);
    return std::string(device.error().message());
  };
  heddle_rt_attention_desc d = describe(AttentionCase{});
  d.type = HEDDLE_RT_F16;
  EXPECT_EQ(messageOf(d),
            "attention: expected operands of type f32 or bf16, got f16");
  d = describe(AttentionCase{});
  d.keys = 0;
  EXPECT_EQ(messageOf(d),
            "attention: expected sizes of at least 1, got batch 1, queries 1, "
            "keys 0, groups 1, group size 1, head 8");
  d = describe(AttentionCase{});
  d.dropout = 0.5f;
  EXPECT_EQ(messageOf(d), "attention: expected a step number, which dropout "
                          "needs, got none");
  d = describe(AttentionCase{});
  d.mask_kind = HEDDLE_RT_MASK_SEEN;
  EXPECT_EQ(messageOf(d), "attention: expected a mask, which the descriptor "
                          "has, got none");
}

} // namespace
