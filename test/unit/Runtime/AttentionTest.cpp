//===- AttentionTest.cpp - Attention against its definition ---------------===//

#include "backends/cpu/CpuDevice.h"
#include "backends/cpu/kernels/Convert.h"
#include "heddle_rt/philox.h"
#include "support/Message.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

using namespace heddle::runtime;

namespace {

/// The sizes and options of a call, from which `describe` makes a descriptor.
struct Case {
  int64_t batch = 1, queries = 1, keys = 1, groups = 1, groupSize = 1, head = 8;
  bool causal = false;
  int32_t type = HEDDLE_RT_F32;
  float dropout = 0;
  heddle_rt_attention_offsets offsets{0, 0, 0, 0, 0};
  int64_t keysBeyond = 0; ///< how many keys lie beyond the global sequence
  int64_t window = 0;
  heddle_rt_attention_mask mask = HEDDLE_RT_MASK_NONE;
  /// Which dimensions of the mask are repeated: batch, query, group, member,
  /// key.
  bool repeats[5] = {};
};

/// The tensors of a call as numbers in dense layouts: q, o and their gradients
/// as [batch, queries, groups, group_size, head]; k, v and their gradients as
/// [batch, keys, groups, head].
struct Numbers {
  std::vector<double> q, k, v, o, lse, d_o, dq, dk, dv;
};

double randomNumber(uint32_t &state) {
  state = state * 1664525 + 1013904223;
  return double(int32_t(state)) * 0x1p-31;
}

std::vector<double> randomNumbers(int64_t count, uint32_t seed, int32_t type) {
  std::vector<double> values(static_cast<size_t>(count));
  for (double &value : values) {
    auto single = float(2 * randomNumber(seed));
    uint16_t half;
    if (type == HEDDLE_RT_BF16) {
      convertFromF32(DType(type), &single, &half, 1);
      convertToF32(DType(type), &half, &single, 1);
    }
    value = single;
  }
  return values;
}

heddle_rt_attention_desc describe(const Case &c) {
  heddle_rt_attention_desc d;
  std::memset(&d, 0, sizeof d);
  d.batch = c.batch, d.queries = c.queries, d.keys = c.keys;
  d.groups = c.groups, d.group_size = c.groupSize, d.head = c.head;
  d.type = c.type, d.causal = c.causal;
  d.scale = float(1 / std::sqrt(double(c.head)));
  d.dropout = c.dropout;
  d.seed = 0x123456789abcdef0;
  d.op_id = 42;
  d.global_queries = 40 + c.queries;
  d.global_keys =
      c.offsets.key + c.keys + (c.keysBeyond > 0 ? -c.keysBeyond : 40);
  d.global_groups = 5 + c.groups, d.global_group_size = 5 + c.groupSize;
  // Queries, keys and values lie in one buffer, as a fused projection writes
  // them: [batch, row, group, (q heads, k, v), head].
  int64_t group = (c.groupSize + 2) * c.head;
  int64_t rows = std::max(c.queries, c.keys);
  d.q_head_stride = c.head;
  d.q_group_stride = d.k_group_stride = d.v_group_stride = group;
  d.q_row_stride = d.k_row_stride = d.v_row_stride = c.groups * group;
  d.q_batch_stride = d.k_batch_stride = d.v_batch_stride =
      rows * c.groups * group;
  // The gradients lie in buffers of their own, heads before rows.
  d.dq_row_stride = c.head;
  d.dq_head_stride = c.queries * c.head;
  d.dq_group_stride = c.groupSize * d.dq_head_stride;
  d.dq_batch_stride = c.groups * d.dq_group_stride;
  d.dk_row_stride = d.dv_row_stride = c.head;
  d.dk_group_stride = d.dv_group_stride = c.keys * c.head;
  d.dk_batch_stride = d.dv_batch_stride = c.groups * d.dk_group_stride;
  d.window = c.window, d.mask_kind = c.mask;
  if (c.mask != HEDDLE_RT_MASK_NONE) {
    int64_t *strides[] = {&d.mask_key_stride, &d.mask_head_stride,
                          &d.mask_group_stride, &d.mask_row_stride,
                          &d.mask_batch_stride};
    int64_t sizes[] = {d.global_keys, c.groupSize, c.groups, c.queries,
                       c.batch};
    int64_t stride = 1;
    for (int i = 0; i < 5; ++i)
      if (!c.repeats[4 - i]) {
        *strides[i] = stride;
        stride *= sizes[i];
      }
  }
  return d;
}

/// Returns the elements of the mask: a third of the keys are hidden, and all
/// keys of every fourth row.
std::vector<float> maskOf(const Case &c, const heddle_rt_attention_desc &d) {
  auto size = [&](int dim, int64_t size) { return c.repeats[dim] ? 1 : size; };
  int64_t keys = size(4, d.global_keys);
  int64_t rows = size(0, c.batch) * size(1, c.queries) * size(2, c.groups) *
                 size(3, c.groupSize);
  std::vector<float> mask;
  uint32_t state = 5;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t key = 0; key < keys; ++key) {
      double number = randomNumber(state);
      bool seen = number > -0.3 && (rows < 4 || row % 4 != 3);
      mask.push_back(c.mask == HEDDLE_RT_MASK_SEEN ? float(seen)
                     : seen                        ? float(number)
                                                   : -3e38f);
    }
  return mask;
}

/// Returns what the mask, causality and the window add to a scaled score.
double addendOf(const Case &c, const heddle_rt_attention_desc &d,
                const std::vector<float> &mask, int64_t b, int64_t i, int64_t g,
                int64_t r, int64_t j) {
  int64_t key = j + c.offsets.key, query = i + c.offsets.query;
  if ((c.causal && key > query) ||
      (c.window > 0 && std::abs(key - query) >= c.window))
    return -INFINITY;
  if (c.mask == HEDDLE_RT_MASK_NONE)
    return 0;
  double element =
      mask[size_t(b * d.mask_batch_stride + i * d.mask_row_stride +
                  g * d.mask_group_stride + r * d.mask_head_stride +
                  key * d.mask_key_stride)];
  if (c.mask == HEDDLE_RT_MASK_SEEN)
    return element != 0 ? 0 : -INFINITY;
  return element <= -1e30 ? -INFINITY : element;
}

struct Index {
  const Case &c;
  size_t query(int64_t b, int64_t i, int64_t g, int64_t r) const {
    return size_t(((b * c.queries + i) * c.groups + g) * c.groupSize + r);
  }
  size_t key(int64_t b, int64_t j, int64_t g) const {
    return size_t((b * c.keys + j) * c.groups + g);
  }
};

/// Returns dropout's factor of a probability, as abi.h defines it.
double dropoutFactor(const Case &c, const heddle_rt_attention_desc &d,
                     uint32_t step, int64_t b, int64_t i, int64_t g, int64_t r,
                     int64_t j) {
  if (c.dropout == 0)
    return 1;
  const heddle_rt_attention_offsets &at = c.offsets;
  auto element = uint64_t(((((b + at.batch) * d.global_groups + g + at.group) *
                                d.global_group_size +
                            r + at.group_member) *
                               d.global_queries +
                           i + at.query) *
                              d.global_keys +
                          j + at.key);
  uint64_t block = element / 4;
  std::array<uint32_t, 4> words = Philox4x32(d.seed)(
      {uint32_t(block), uint32_t(block >> 32), step, d.op_id});
  return double(words[element % 4]) < double(d.dropout) * 4294967296.0
             ? 0
             : 1 / (1 - double(d.dropout));
}

/// Computes attention and its gradients by their definition, in double
/// precision.
void reference(const Case &c, const heddle_rt_attention_desc &d, uint32_t step,
               Numbers &n) {
  Index at{c};
  auto D = size_t(c.head);
  std::vector<float> mask = maskOf(c, d);
  n.o.assign(n.q.size(), 0);
  n.lse.assign(n.q.size() / D, 0);
  n.dq.assign(n.q.size(), 0);
  n.dk.assign(n.k.size(), 0);
  n.dv.assign(n.k.size(), 0);
  std::vector<double> p(size_t(c.keys)), m(size_t(c.keys)), dp(size_t(c.keys));
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t g = 0; g < c.groups; ++g)
      for (int64_t r = 0; r < c.groupSize; ++r)
        for (int64_t i = 0; i < c.queries; ++i) {
          size_t qi = at.query(b, i, g, r);
          double largest = -INFINITY, sum = 0, delta = 0;
          for (int64_t j = 0; j < c.keys; ++j) {
            size_t kj = at.key(b, j, g);
            double score = 0;
            for (size_t e = 0; e < D; ++e)
              score += n.q[qi * D + e] * n.k[kj * D + e] * double(d.scale);
            score += addendOf(c, d, mask, b, i, g, r, j);
            p[size_t(j)] = score;
            m[size_t(j)] = dropoutFactor(c, d, step, b, i, g, r, j);
            largest = std::max(largest, score);
          }
          for (double &x : p) {
            x = std::isinf(largest) ? 0 : std::exp(x - largest);
            sum += x;
          }
          n.lse[qi] = sum > 0 ? largest + std::log(sum) : -INFINITY;
          for (int64_t j = 0; j < c.keys; ++j) {
            size_t kj = at.key(b, j, g);
            p[size_t(j)] /= sum > 0 ? sum : 1;
            dp[size_t(j)] = 0;
            for (size_t e = 0; e < D; ++e) {
              n.o[qi * D + e] += p[size_t(j)] * m[size_t(j)] * n.v[kj * D + e];
              n.dv[kj * D + e] +=
                  p[size_t(j)] * m[size_t(j)] * n.d_o[qi * D + e];
              dp[size_t(j)] +=
                  m[size_t(j)] * n.d_o[qi * D + e] * n.v[kj * D + e];
            }
            delta += p[size_t(j)] * dp[size_t(j)];
          }
          for (int64_t j = 0; j < c.keys; ++j) {
            size_t kj = at.key(b, j, g);
            double ds =
                p[size_t(j)] * (dp[size_t(j)] - delta) * double(d.scale);
            for (size_t e = 0; e < D; ++e) {
              n.dq[qi * D + e] += ds * n.k[kj * D + e];
              n.dk[kj * D + e] += ds * n.q[qi * D + e];
            }
          }
        }
}

/// A buffer of elements of the call's type.
struct Memory {
  Memory(int64_t count, int32_t type)
      : type(type), bytes(size_t(count) * byteSize(DType(type))) {}
  void set(int64_t i, double value) {
    auto single = float(value);
    convertFromF32(DType(type), &single, at(bytes.data(), type, i), 1);
  }
  double get(int64_t i) const {
    float value;
    convertToF32(DType(type), at(bytes.data(), type, i), &value, 1);
    return value;
  }
  void *data() { return bytes.data(); }
  void *data(int64_t offset) { return at(bytes.data(), type, offset); }
  int32_t type;
  std::vector<std::byte> bytes;
};

/// Runs the forward and the backward pass and returns the results in the
/// layouts of Numbers.
Numbers run(const Case &c, const heddle_rt_attention_desc &d, int64_t step,
            const Numbers &in, int cores) {
  Index index{c};
  Memory qkv(d.q_batch_stride * c.batch, c.type);
  Memory o(int64_t(in.q.size()), c.type), d_o(int64_t(in.q.size()), c.type);
  Memory dq(int64_t(in.q.size()), c.type), dk(int64_t(in.k.size()), c.type),
      dv(int64_t(in.k.size()), c.type);
  auto qAt = [&](int64_t b, int64_t i, int64_t g, int64_t r) {
    return b * d.q_batch_stride + i * d.q_row_stride + g * d.q_group_stride +
           r * d.q_head_stride;
  };
  int64_t kFirst = c.groupSize * c.head, vFirst = kFirst + c.head;
  auto kAt = [&](int64_t b, int64_t j, int64_t g) {
    return b * d.k_batch_stride + j * d.k_row_stride + g * d.k_group_stride;
  };
  auto eachQuery = [&](auto body) {
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t i = 0; i < c.queries; ++i)
        for (int64_t g = 0; g < c.groups; ++g)
          for (int64_t r = 0; r < c.groupSize; ++r)
            for (int64_t e = 0; e < c.head; ++e)
              body(b, i, g, r, e,
                   index.query(b, i, g, r) * size_t(c.head) + size_t(e));
  };
  auto eachKey = [&](auto body) {
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t j = 0; j < c.keys; ++j)
        for (int64_t g = 0; g < c.groups; ++g)
          for (int64_t e = 0; e < c.head; ++e)
            body(b, j, g, e, index.key(b, j, g) * size_t(c.head) + size_t(e));
  };
  eachQuery([&](auto b, auto i, auto g, auto r, auto e, size_t n) {
    qkv.set(qAt(b, i, g, r) + e, in.q[n]);
    d_o.set(int64_t(n), in.d_o[n]);
  });
  eachKey([&](auto b, auto j, auto g, auto e, size_t n) {
    qkv.set(kFirst + kAt(b, j, g) + e, in.k[n]);
    qkv.set(vFirst + kAt(b, j, g) + e, in.v[n]);
  });
  CpuDevice device(0, cores, false);
  std::vector<float> lse(in.q.size() / size_t(c.head));
  std::vector<float> added = maskOf(c, d);
  std::vector<uint8_t> seen(added.begin(), added.end());
  const void *mask = c.mask == HEDDLE_RT_MASK_SEEN
                         ? static_cast<const void *>(seen.data())
                         : added.data();
  EXPECT_EQ(heddle_rt_attention(&device, 0, &d, &c.offsets, &step, mask,
                                qkv.data(), qkv.data(kFirst), qkv.data(vFirst),
                                o.data(), lse.data()),
            0);
  EXPECT_EQ(heddle_rt_attention_grad(
                &device, 0, &d, &c.offsets, &step, mask, qkv.data(),
                qkv.data(kFirst), qkv.data(vFirst), o.data(), lse.data(),
                d_o.data(), dq.data(), dk.data(), dv.data()),
            0);
  EXPECT_EQ(heddle_rt_synchronize(&device), 0) << device.error().message();
  Numbers out = in;
  out.o.resize(in.q.size()), out.dq.resize(in.q.size());
  out.dk.resize(in.k.size()), out.dv.resize(in.k.size());
  out.lse.assign(lse.begin(), lse.end());
  eachQuery([&](auto b, auto i, auto g, auto r, auto e, size_t n) {
    out.o[n] = o.get(int64_t(n));
    out.dq[n] = dq.get(b * d.dq_batch_stride + i * d.dq_row_stride +
                       g * d.dq_group_stride + r * d.dq_head_stride + e);
  });
  eachKey([&](auto b, auto j, auto g, auto e, size_t n) {
    int64_t at =
        b * d.dk_batch_stride + j * d.dk_row_stride + g * d.dk_group_stride + e;
    out.dk[n] = dk.get(at);
    out.dv[n] = dv.get(at);
  });
  return out;
}

Numbers inputs(const Case &c) {
  Numbers n;
  int64_t q = c.batch * c.queries * c.groups * c.groupSize * c.head;
  int64_t k = c.batch * c.keys * c.groups * c.head;
  n.q = randomNumbers(q, 1, c.type), n.k = randomNumbers(k, 2, c.type);
  n.v = randomNumbers(k, 3, c.type), n.d_o = randomNumbers(q, 4, c.type);
  return n;
}

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

void check(const Case &c) {
  SCOPED_TRACE(concat("batch ", c.batch, " queries ", c.queries, " keys ",
                      c.keys, " groups ", c.groups, " x ", c.groupSize,
                      " head ", c.head, " causal ", c.causal, " type ", c.type,
                      " dropout ", c.dropout));
  heddle_rt_attention_desc d = describe(c);
  Numbers expected = inputs(c);
  Numbers got = run(c, d, 7, expected, 2);
  reference(c, d, 7, expected);
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
        Case c;
        c.queries = c.keys = length, c.causal = causal, c.head = head;
        check(c);
      }
  Case cross;
  cross.queries = 70, cross.keys = 131, cross.groups = 2;
  check(cross);
  Case longer;
  longer.queries = longer.keys = 600, longer.head = 16, longer.causal = true;
  check(longer);
}

TEST(Attention, Windows) {
  for (bool causal : {false, true})
    for (int64_t window : {1, 3, 64, 65, 100, 1000}) {
      Case c;
      c.batch = 2, c.queries = c.keys = 200, c.causal = causal;
      c.window = window;
      check(c);
      c.offsets = {0, 150, 30, 0, 0}; // as in a step of a ring
      check(c);
      c.offsets = {0, 30, 150, 0, 0};
      check(c);
    }
  Case longer; // more than one chunk of queries
  longer.queries = longer.keys = 1100, longer.head = 16, longer.window = 70;
  longer.causal = true;
  check(longer);
}

TEST(Attention, Masks) {
  for (heddle_rt_attention_mask mask :
       {HEDDLE_RT_MASK_SEEN, HEDDLE_RT_MASK_ADDED})
    for (int repeated = 0; repeated < 32; ++repeated) {
      Case c;
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
    Case c;
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
      Case c;
      c.batch = 2, c.queries = c.keys = 77, c.groups = 2, c.groupSize = 2;
      c.causal = true, c.type = type, c.dropout = dropout;
      c.offsets = {1, 2, 2, 3, 1};
      check(c);
    }
}

TEST(Attention, ShardedPositions) {
  // Queries from position 100 and keys from 64: every query sees the first
  // keys, and the causal diagonal crosses the later ones.
  Case c;
  c.queries = 50, c.keys = 80, c.causal = true;
  c.offsets = {0, 100, 64, 0, 0};
  check(c);
  // The first 30 queries see no key at all.
  c.offsets = {0, 34, 64, 0, 0};
  check(c);
  Numbers got = run(c, describe(c), 0, inputs(c), 1);
  EXPECT_EQ(got.lse[29], -INFINITY);
  EXPECT_EQ(got.o[29 * 8], 0);
  EXPECT_TRUE(std::isfinite(got.lse[30]));
}

TEST(Attention, KeysBeyondTheEnd) {
  // The result is the same as without the padding, whatever the padding holds.
  for (bool causal : {false, true})
    for (int64_t beyond : {1, 20, 100, 130}) {
      Case padded, cut;
      padded.queries = cut.queries = 140, padded.keys = 130;
      padded.causal = cut.causal = causal;
      padded.offsets = cut.offsets = {0, 64, 64, 0, 0};
      padded.keysBeyond = beyond;
      cut.keys = std::max<int64_t>(130 - beyond, 1);
      Numbers in = inputs(padded), less = in;
      size_t end = size_t(130 - beyond) * 8;
      for (auto *values : {&in.k, &in.v})
        std::fill(values->begin() + ptrdiff_t(end), values->end(), NAN);
      less.k.resize(size_t(cut.keys) * 8), less.v.resize(size_t(cut.keys) * 8);
      Numbers got = run(padded, describe(padded), 0, in, 2);
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
      Numbers expected = run(cut, describe(cut), 0, less, 2);
      got.dk.resize(end), got.dv.resize(end);
      EXPECT_EQ(got.o, expected.o);
      EXPECT_EQ(got.lse, expected.lse);
      EXPECT_EQ(got.dq, expected.dq);
      EXPECT_EQ(got.dk, expected.dk);
      EXPECT_EQ(got.dv, expected.dv);
    }
}

TEST(Attention, SameBitsOnAnyNumberOfCores) {
  Case c;
  c.batch = 3, c.queries = c.keys = 150, c.groups = 2, c.causal = true;
  c.dropout = 0.2f;
  Numbers in = inputs(c), first = run(c, describe(c), 1, in, 1);
  for (int cores : {2, 5}) {
    Numbers other = run(c, describe(c), 1, in, cores);
    EXPECT_EQ(first.o, other.o);
    EXPECT_EQ(first.dq, other.dq);
    EXPECT_EQ(first.dk, other.dk);
    EXPECT_EQ(first.dv, other.dv);
  }
}

TEST(Attention, FewHeadsOnManyCores) {
  // There is one (batch, group) for seven cores, so the backward pass splits it
  // into two parts. The result must have the bits of a run on one core.
  Case c;
  c.queries = 1100, c.keys = 1300, c.groupSize = 2, c.causal = true;
  c.offsets = {0, 200, 0, 0, 0};
  Numbers in = inputs(c), first = run(c, describe(c), 1, in, 1),
          other = run(c, describe(c), 1, in, 7);
  EXPECT_EQ(first.o, other.o);
  EXPECT_EQ(first.dq, other.dq);
  EXPECT_EQ(first.dk, other.dk);
  EXPECT_EQ(first.dv, other.dv);
}

TEST(Attention, DropoutDoesNotChangeWithTheSharding) {
  // Compares the whole with a run on the second half of the batch and groups.
  Case whole;
  whole.batch = 2, whole.groups = 2, whole.groupSize = 2;
  whole.queries = whole.keys = 67, whole.dropout = 0.3f, whole.causal = true;
  Case part = whole;
  part.batch = part.groups = 1;
  part.offsets = {1, 0, 0, 1, 0};
  heddle_rt_attention_desc wholeDesc = describe(whole),
                           partDesc = describe(part);
  partDesc.global_groups = wholeDesc.global_groups;
  Numbers all = inputs(whole), some = inputs(part);
  Index from{whole}, to{part};
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
  all = run(whole, wholeDesc, 9, all, 1);
  some = run(part, partDesc, 9, some, 1);
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
  heddle_rt_attention_desc d = describe(Case{});
  d.type = HEDDLE_RT_F16;
  EXPECT_EQ(messageOf(d),
            "attention: expected operands of type f32 or bf16, got f16");
  d = describe(Case{});
  d.keys = 0;
  EXPECT_EQ(messageOf(d),
            "attention: expected sizes of at least 1, got batch 1, queries 1, "
            "keys 0, groups 1, group size 1, head 8");
  d = describe(Case{});
  d.dropout = 0.5f;
  EXPECT_EQ(messageOf(d), "attention: expected a step number, which dropout "
                          "needs, got none");
  d = describe(Case{});
  d.mask_kind = HEDDLE_RT_MASK_SEEN;
  EXPECT_EQ(messageOf(d), "attention: expected a mask, which the descriptor "
                          "has, got none");
}

} // namespace
