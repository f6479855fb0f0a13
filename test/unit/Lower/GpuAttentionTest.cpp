//===- GpuAttentionTest.cpp - Attention by cuDNN and by our kernels -------===//
//
// Calls of a rank on an emulated GPU, whose cuDNN computes graphs operation by
// operation. The reference is the definition of attention, in f64.
//
//===----------------------------------------------------------------------===//

#include "backends/cuda/CudaDevice.h"
#include "test/support/DenseAttention.h"
#include "test/support/EmulatedCuda/EmulatedCuda.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::runtime;
using cuda::AttentionChoice;

namespace {

struct Case {
  int64_t batch = 2, queries = 12, keys = 12, groups = 2, members = 1, head = 8;
  int32_t type = HEDDLE_RT_BF16;
  bool causal = true;
  int64_t window = 0;

  int64_t rows() const { return batch * queries * groups * members; }
  int64_t numbersOfQ() const { return rows() * head; }
  int64_t numbersOfK() const { return batch * keys * groups * head; }
};

heddle_rt_attention_desc describe(const Case &c) {
  return describeDense(
      c.type, {c.batch, c.queries, c.keys, c.groups, c.members, c.head},
      c.causal, c.window, 0.3f);
}

uint16_t narrow(int32_t type, double number) {
  uint16_t half;
  if (type == HEDDLE_RT_F16) {
    auto rounded = _Float16(number);
    std::memcpy(&half, &rounded, sizeof half);
    return half;
  }
  auto single = float(number);
  uint32_t bits;
  std::memcpy(&bits, &single, sizeof bits);
  return uint16_t((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
double widen(int32_t type, uint16_t half) {
  if (type == HEDDLE_RT_F16) {
    _Float16 value;
    std::memcpy(&value, &half, sizeof half);
    return double(value);
  }
  uint32_t bits = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

using Numbers = std::vector<double>;
struct Results {
  Numbers o, lse, dq, dk, dv;
};

/// Attention and its gradients by their definition.
Results define(const Case &c, double scale, const Numbers &q, const Numbers &k,
               const Numbers &v, const Numbers &dO) {
  Results r{Numbers(q.size()), Numbers(size_t(c.rows())), Numbers(q.size()),
            Numbers(k.size()), Numbers(k.size())};
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t i = 0; i < c.queries; ++i)
      for (int64_t h = 0; h < c.groups * c.members; ++h) {
        auto row = size_t((b * c.queries + i) * c.groups * c.members + h);
        size_t at = row * size_t(c.head);
        auto keyAt = [&](int64_t j) {
          return size_t(((b * c.keys + j) * c.groups + h / c.members) * c.head);
        };
        auto dot = [&](const Numbers &x, size_t xAt, const Numbers &y,
                       size_t yAt) {
          double sum = 0;
          for (size_t d = 0; d < size_t(c.head); ++d)
            sum += x[xAt + d] * y[yAt + d];
          return sum;
        };
        std::vector<int64_t> seen;
        for (int64_t j = 0; j < c.keys; ++j)
          if ((!c.causal || j <= i) && (!c.window || j > i - c.window))
            seen.push_back(j);
        double total = 0;
        for (int64_t j : seen)
          total += std::exp(scale * dot(q, at, k, keyAt(j)));
        r.lse[row] = std::log(total);
        Numbers weights;
        double delta = 0;
        for (int64_t j : seen) {
          weights.push_back(
              std::exp(scale * dot(q, at, k, keyAt(j)) - r.lse[row]));
          delta += weights.back() * dot(dO, at, v, keyAt(j));
          for (size_t d = 0; d < size_t(c.head); ++d)
            r.o[at + d] += weights.back() * v[keyAt(j) + d];
        }
        for (size_t n = 0; n < seen.size(); ++n) {
          size_t key = keyAt(seen[n]);
          double score = weights[n] * (dot(dO, at, v, key) - delta) * scale;
          for (size_t d = 0; d < size_t(c.head); ++d) {
            r.dq[at + d] += score * k[key + d];
            r.dk[key + d] += score * q[at + d];
            r.dv[key + d] += weights[n] * dO[at + d];
          }
        }
      }
  return r;
}

using Cudnn = cuda::dnn::Cudnn;
using LoadCudnn = Expected<Cudnn> (*)(int);

class GpuAttentionTest : public ::testing::Test {
protected:
  void SetUp() override {
    open([](int) -> Expected<Cudnn> { return emulated::getCudnn(); });
  }
  void TearDown() override {
    memory.clear();
    device.reset();
    EXPECT_EQ(emulated::takeFault(), "");
  }

  void open(LoadCudnn load) {
    memory.clear();
    device.reset();
    emulated::takeFault(); // of work that was still queued
    emulated::takeCounts();
    auto card = cuda::Card::open({emulated::getDriver(), nullptr, load});
    ASSERT_TRUE(card.ok()) << card.message();
    device = std::make_unique<cuda::CudaDevice>(
        0, *card, std::make_shared<const std::vector<cuda::LoadedKernel>>(), 1);
    ASSERT_TRUE(device->start(1).ok());
  }

  /// A descriptor has static lifetime in a program.
  const heddle_rt_attention_desc &keep(const heddle_rt_attention_desc &desc) {
    descriptors.push_back(std::make_unique<heddle_rt_attention_desc>(desc));
    return *descriptors.back();
  }

  std::byte *allocate(size_t bytes) {
    auto region = device->allocate(bytes);
    EXPECT_TRUE(region.ok()) << region.message();
    memory.push_back(std::move(*region));
    return reinterpret_cast<std::byte *>(memory.back()->data());
  }
  /// Rounds numbers to a type, and returns their address in the GPU's memory.
  void *upload(int32_t type, Numbers &numbers) {
    std::vector<uint16_t> halves;
    for (double &number : numbers) {
      halves.push_back(narrow(type, number));
      number = widen(type, halves.back());
    }
    void *to = allocate(2 * halves.size());
    EXPECT_TRUE(
        device->copyToDevice(to, halves.data(), 2 * halves.size()).ok());
    return to;
  }
  Numbers download(int32_t type, const void *from, int64_t count) {
    std::vector<uint16_t> halves(size_t(count), 0);
    EXPECT_TRUE(
        device->copyToHost(halves.data(), from, 2 * halves.size()).ok());
    Numbers numbers;
    for (uint16_t half : halves)
      numbers.push_back(widen(type, half));
    return numbers;
  }

  /// Runs both passes. After an error, `message` tells it.
  Results run(const Case &c, AttentionChoice forward,
              AttentionChoice backward) {
    const heddle_rt_attention_desc &desc = keep(describe(c));
    uint32_t state = 7;
    auto randomNumbers = [&](int64_t count) {
      Numbers numbers;
      for (int64_t i = 0; i < count; ++i) {
        state = state * 1664525 + 1013904223;
        numbers.push_back(double(int32_t(state)) * 0x1p-31);
      }
      return numbers;
    };
    Numbers q = randomNumbers(c.numbersOfQ()),
            k = randomNumbers(c.numbersOfK()),
            v = randomNumbers(c.numbersOfK()),
            dO = randomNumbers(c.numbersOfQ());
    void *qAt = upload(c.type, q), *kAt = upload(c.type, k),
         *vAt = upload(c.type, v), *dOAt = upload(c.type, dO);
    expected = define(c, double(desc.scale), q, k, v, dO);
    void *o = allocate(2 * q.size()), *dq = allocate(2 * q.size()),
         *dk = allocate(2 * k.size()), *dv = allocate(2 * k.size());
    auto *lse =
        reinterpret_cast<float *>(allocate(sizeof(float) * size_t(c.rows())));
    auto issue = [&]() -> Status {
      HEDDLE_RT_RETURN_IF_ERROR(device->prepareAttention(forward, nullptr));
      HEDDLE_RT_RETURN_IF_ERROR(device->attention(0, desc, {}, nullptr, nullptr,
                                                  qAt, kAt, vAt, o, lse));
      HEDDLE_RT_RETURN_IF_ERROR(device->prepareAttention(backward, nullptr));
      HEDDLE_RT_RETURN_IF_ERROR(device->attentionGrad(0, desc, {}, nullptr,
                                                      nullptr, qAt, kAt, vAt, o,
                                                      lse, dOAt, dq, dk, dv));
      return device->synchronize();
    };
    Status done = issue();
    message = done.message();
    if (!done.ok())
      return {};
    Results r;
    std::vector<float> logs(size_t(c.rows()));
    EXPECT_TRUE(
        device->copyToHost(logs.data(), lse, logs.size() * sizeof(float)).ok());
    r.lse.assign(logs.begin(), logs.end());
    r.o = download(c.type, o, c.numbersOfQ());
    r.dq = download(c.type, dq, c.numbersOfQ());
    r.dk = download(c.type, dk, c.numbersOfK());
    r.dv = download(c.type, dv, c.numbersOfK());
    return r;
  }

  void compare(const Case &c, AttentionChoice forward, AttentionChoice backward,
               int64_t byCudnn) {
    emulated::takeCounts();
    Results got = run(c, forward, backward);
    ASSERT_EQ(message, "");
    EXPECT_EQ(emulated::takeCounts().attentions, byCudnn);
    // bf16 has 8 bits: probabilities and results are rounded to them.
    double bound = c.type == HEDDLE_RT_F16 ? 2e-3 : 1.5e-2;
    auto check = [&](const Numbers &x, const Numbers &y, const char *name,
                     double limit) {
      ASSERT_EQ(x.size(), y.size());
      double most = 0, size = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        most = std::max(most, std::abs(x[i] - y[i]));
        size = std::max(size, std::abs(y[i]));
        ASSERT_FALSE(std::isnan(x[i])) << name << ", " << i;
      }
      EXPECT_GT(size, 0.1) << name;
      EXPECT_LE(most, limit * std::max(size, 1.0)) << name;
    };
    check(got.lse, expected.lse, "lse", 1e-5);
    check(got.o, expected.o, "o", bound);
    check(got.dq, expected.dq, "dq", bound);
    check(got.dk, expected.dk, "dk", bound);
    check(got.dv, expected.dv, "dv", bound);
  }

  std::unique_ptr<cuda::CudaDevice> device;
  std::vector<std::unique_ptr<Region>> memory;
  std::vector<std::unique_ptr<heddle_rt_attention_desc>> descriptors;
  Results expected;
  std::string message;
};

constexpr auto kAuto = AttentionChoice::Auto, kCudnn = AttentionChoice::Cudnn,
               kKernel = AttentionChoice::Kernel;

const Case kCases[] = {
    {},
    {.causal = false},
    {.type = HEDDLE_RT_F16},
    {.queries = 7, .keys = 13, .head = 16, .causal = false},
    {.batch = 1, .queries = 13, .keys = 7, .groups = 3, .head = 40},
    {.groups = 2, .members = 3, .head = 16},
    {.batch = 1, .groups = 1, .members = 4, .causal = false},
    {.queries = 20, .keys = 20, .members = 2, .window = 5},
};

TEST_F(GpuAttentionTest, ByCudnn) {
  for (const Case &c : kCases)
    compare(c, kCudnn, kCudnn, 2);
}

/// Both agree on the meaning of the stored sums.
TEST_F(GpuAttentionTest, OnePassByKernels) {
  for (const Case &c : kCases) {
    if (c.type == HEDDLE_RT_F16)
      continue;
    compare(c, kCudnn, kKernel, 1);
    compare(c, kKernel, kCudnn, 1);
    compare(c, kKernel, kKernel, 0);
  }
}

TEST_F(GpuAttentionTest, Repeats) {
  Case c{.members = 2, .window = 6};
  Results first = run(c, kCudnn, kCudnn), second = run(c, kCudnn, kCudnn);
  EXPECT_EQ(message, "");
  EXPECT_EQ(first.dq, second.dq);
  EXPECT_EQ(first.dk, second.dk);
  EXPECT_EQ(first.dv, second.dv);
}

/// Our kernels compute attention that cuDNN does not support. If the choice was
/// cuDNN alone, such attention is an error.
TEST_F(GpuAttentionTest, Choice) {
  using Desc = heddle_rt_attention_desc;
  struct Obstacle {
    void (*change)(Desc &);
    const char *reason;
  };
  const Obstacle obstacles[] = {
      {[](Desc &d) { d.type = HEDDLE_RT_F32; }, "its type is f32"},
      {[](Desc &d) { d.head = 12; },
       "its heads have 12 elements, which are no multiple of 8 up to 128"},
      {[](Desc &d) { d.head = 136; },
       "its heads have 136 elements, which are no multiple of 8 up to 128"},
      {[](Desc &d) { d.dropout = 0.1f; },
       "it has dropout, which sharding must not change"},
      {[](Desc &d) { d.mask_kind = HEDDLE_RT_MASK_SEEN; }, "it has a mask"},
      {[](Desc &d) { d.window = 3, d.causal = 0; },
       "its window reaches to later keys"},
      {[](Desc &d) { d.window = 3, d.queries = 13; },
       "it has a window and more queries than keys"},
      {[](Desc &d) { d.global_keys = 11; }, "some of its keys are padding"},
      {[](Desc &d) { d.group_size = 2; },
       "the heads of its queries lie at unequal distances"},
      {[](Desc &d) { d.k_row_stride = 17; },
       "a stride of its operands is no multiple of 8"},
  };
  for (const Obstacle &each : obstacles) {
    Desc desc = describe({});
    each.change(desc);
    EXPECT_EQ(cuda::findObstacle(desc, {}), each.reason);
  }
  heddle_rt_attention_offsets later{};
  later.query = 12;
  EXPECT_EQ(cuda::findObstacle(describe({}), later),
            "its queries and keys begin at different positions");
  Desc whole = describe({.causal = false});
  EXPECT_EQ(cuda::findObstacle(whole, later), "");

  Desc masked = describe({});
  masked.window = 3;
  masked.causal = 0;
  const heddle_rt_attention_call calls[] = {{&masked, 1}, {nullptr, 0}};
  EXPECT_TRUE(device->prepareAttention(kAuto, calls).ok());
  EXPECT_TRUE(device->prepareAttention(kKernel, calls).ok());
  EXPECT_EQ(device->prepareAttention(kCudnn, calls).message(),
            "gradient of attention of 2 x 2 heads of bf16, 12 x 12 x 8: the "
            "model was compiled with --gpu-attention=cudnn, and cuDNN does not "
            "serve this one, because its window reaches to later keys: compile "
            "it with auto");
}

/// Plans are made, and their memory is known, before a program runs.
TEST_F(GpuAttentionTest, Workspace) {
  const auto &desc = keep(describe({}));
  const heddle_rt_attention_call calls[] = {
      {&desc, 0}, {&desc, 1}, {nullptr, 0}};
  ASSERT_TRUE(device->prepareAttention(kKernel, calls).ok());
  EXPECT_EQ(totalBytes(device->workspaces()), 0u);
  ASSERT_TRUE(device->prepareAttention(kAuto, calls).ok());
  // One f32 a row, and the gradients of the scores in tiles of 64 x 128.
  EXPECT_EQ(totalBytes(device->workspaces()), 256u + 256u + 4 * 64 * 128 * 2);
  EXPECT_EQ(device->scratchBytes(), 0u);
}

TEST_F(GpuAttentionTest, NoLibrary) {
  open([](int) -> Expected<Cudnn> {
    return Status::error("cannot find cuDNN");
  });
  ::testing::internal::CaptureStderr();
  compare({}, kAuto, kAuto, 0);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "heddle: attention runs on plain kernels, which are slow: cannot "
            "find cuDNN\n");
  run({}, kCudnn, kCudnn);
  EXPECT_EQ(message, "the model was compiled with --gpu-attention=cudnn: "
                     "cannot find cuDNN");
}

/// An engine that the library has not for this GPU.
TEST_F(GpuAttentionTest, NoEngine) {
  open([](int) -> Expected<Cudnn> {
    Cudnn functions = emulated::getCudnn();
    functions.getAttribute = [](cuda::dnn::Descriptor, int, int, int64_t,
                                int64_t *count, void *) {
      *count = 0;
      return cuda::dnn::kSuccess;
    };
    return functions;
  });
  ::testing::internal::CaptureStderr();
  compare({}, kAuto, kAuto, 0);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(
                "the library proposes no engine"),
            std::string::npos);
}

/// Plants a change of the strides of all operands, and returns the fault that
/// the emulated GPU finds.
template <int64_t (*change)(int64_t)> Expected<Cudnn> withStrides(int) {
  Cudnn functions = emulated::getCudnn();
  functions.setAttribute = [](cuda::dnn::Descriptor descriptor, int attribute,
                              int type, int64_t count, const void *values) {
    if (attribute != cuda::dnn::kTensorStrides)
      return emulated::getCudnn().setAttribute(descriptor, attribute, type,
                                               count, values);
    int64_t strides[4];
    std::memcpy(strides, values, sizeof strides);
    // Only strides of 16 x 8 numbers or more, so not those of a number of the
    // host.
    if (strides[0] > 1)
      strides[0] = change(strides[0]);
    return emulated::getCudnn().setAttribute(descriptor, attribute, type, count,
                                             strides);
  };
  return functions;
}

TEST_F(GpuAttentionTest, WrongStrides) {
  // Behind the end of the memory.
  open(&withStrides<[](int64_t stride) { return stride * 100000; }>);
  run({}, kCudnn, kCudnn);
  EXPECT_NE(message, "");
  std::string fault = emulated::takeFault();
  EXPECT_NE(fault.find("is not within one allocation"), std::string::npos)
      << fault;
  // Not one that the library takes.
  open(&withStrides<[](int64_t) { return int64_t(0); }>);
  run({}, kCudnn, kCudnn);
  EXPECT_NE(message.find("a dimension or stride is not positive"),
            std::string::npos)
      << message;
  fault = emulated::takeFault();
  EXPECT_NE(fault.find("a dimension or stride is not positive"),
            std::string::npos)
      << fault;
  // Not one that the engines take.
  open(&withStrides<[](int64_t stride) { return stride + 1; }>);
  run({}, kCudnn, kCudnn);
  EXPECT_EQ(message,
            "the model was compiled with --gpu-attention=cudnn: attention of 2 "
            "x 2 heads of bf16, 12 x 12 x 8: cudnnBackendFinalize: not "
            "supported (cuDNN status 3000): a stride "
            "is no multiple of 8");
  // Within the memory: the numbers are wrong.
  open(&withStrides<[](int64_t stride) { return stride - 8; }>);
  Results got = run({}, kCudnn, kCudnn);
  EXPECT_EQ(message, "");
  double most = 0;
  for (size_t i = 0; i < got.o.size(); ++i)
    most = std::max(most, std::abs(got.o[i] - expected.o[i]));
  EXPECT_GT(most, 0.1);
}

/// The comparison of causality, turned around.
TEST_F(GpuAttentionTest, WrongMask) {
  open([](int) -> Expected<Cudnn> {
    Cudnn functions = emulated::getCudnn();
    functions.setAttribute = [](cuda::dnn::Descriptor descriptor, int attribute,
                                int type, int64_t count, const void *values) {
      int mode = cuda::dnn::kGreater;
      if (attribute == cuda::dnn::kPointwiseMode &&
          *static_cast<const int *>(values) == cuda::dnn::kGreaterOrEqual)
        values = &mode;
      return emulated::getCudnn().setAttribute(descriptor, attribute, type,
                                               count, values);
    };
    return functions;
  });
  Results got = run({}, kCudnn, kCudnn);
  EXPECT_EQ(message, "");
  EXPECT_TRUE(std::isnan(got.o[0])); // the first query sees no key
}

} // namespace
