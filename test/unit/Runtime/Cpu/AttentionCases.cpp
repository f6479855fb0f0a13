//===- AttentionCases.cpp - Attention by its definition -------------------===//

#include "AttentionCases.h"
#include "backends/cpu/CpuDevice.h"
#include "backends/cpu/kernels/Convert.h"
#include "heddle_rt/philox.h"
#include "support/Message.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::runtime;

static double randomNumber(uint32_t &state) {
  state = state * 1664525 + 1013904223;
  return double(int32_t(state)) * 0x1p-31;
}

static std::vector<double> randomNumbers(int64_t count, uint32_t seed,
                                         int32_t type) {
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

heddle_rt_attention_desc runtime::describe(const AttentionCase &c) {
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
static std::vector<float> maskOf(const AttentionCase &c,
                                 const heddle_rt_attention_desc &d) {
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

/// Returns the sum of the mask, causality and the window for a scaled score.
static double addendOf(const AttentionCase &c,
                       const heddle_rt_attention_desc &d,
                       const std::vector<float> &mask, int64_t b, int64_t i,
                       int64_t g, int64_t r, int64_t j) {
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

/// Returns dropout's factor of a probability, as abi.h defines it.
static double dropoutFactor(const AttentionCase &c,
                            const heddle_rt_attention_desc &d, uint32_t step,
                            int64_t b, int64_t i, int64_t g, int64_t r,
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

void runtime::attentionByDefinition(const AttentionCase &c,
                                    const heddle_rt_attention_desc &d,
                                    uint32_t step, AttentionNumbers &n) {
  RowIndex at{c};
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

namespace {
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
} // namespace

AttentionNumbers runtime::runAttention(const AttentionCase &c,
                                       const heddle_rt_attention_desc &d,
                                       int64_t step, const AttentionNumbers &in,
                                       int cores) {
  RowIndex index{c};
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
  AttentionNumbers out = in;
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

AttentionNumbers runtime::attentionInputs(const AttentionCase &c) {
  AttentionNumbers n;
  int64_t q = c.batch * c.queries * c.groups * c.groupSize * c.head;
  int64_t k = c.batch * c.keys * c.groups * c.head;
  n.q = randomNumbers(q, 1, c.type), n.k = randomNumbers(k, 2, c.type);
  n.v = randomNumbers(k, 3, c.type), n.d_o = randomNumbers(q, 4, c.type);
  return n;
}
