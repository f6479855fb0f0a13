//===- AllocationTest.cpp - Steps allocate nothing ------------------------===//
//
// Counts allocations by operator new. After its first run, a step must not
// allocate.

#include "TestArtifact.h"
#include "backends/cpu/CpuDevice.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

static std::atomic<int64_t> allocations{0};

// All other forms of new in the process call this one, also those in the
// runtime and in oneDNN.
void *operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void *memory = std::malloc(size ? size : 1))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

using namespace heddle::runtime;

namespace {

template <typename Body> int64_t allocationsOf(Body &&body) {
  int64_t before = allocations.load();
  body();
  return allocations.load() - before;
}

TEST(Allocation, TheCounterCounts) {
  EXPECT_GE(allocationsOf([] {
              std::vector<int> *volatile kept = new std::vector<int>(3);
              delete kept;
            }),
            1);
}

TEST(Allocation, AStepAllocatesNothing) {
  TestArtifact artifact;
  SessionOptions options;
  options.coresPerDevice = 2;
  Expected<std::unique_ptr<Session>> session =
      Session::load(artifact.path, options);
  ASSERT_TRUE(session.ok()) << session.message();
  float x[8] = {}, sum = 0;
  std::array<ConstBytes, 1> arguments = {bytesOf(x)};
  std::array<Bytes, 2> results = {writableBytesOf(sum), Bytes()};
  auto step = [&] {
    if (!(*session)->run(0, arguments, results).ok())
      std::abort();
  };
  step();
  EXPECT_EQ(allocationsOf([&] {
              for (int i = 0; i < 20; ++i)
                step();
            }),
            0);
}

TEST(Allocation, StreamsAllocateNothing) {
  CpuDevice device(0, 1, false, 2);
  auto kernel = [](void *const *buffers, int64_t, int64_t) {
    ++*static_cast<int *>(buffers[1]);
  };
  int counts[2] = {};
  auto issue = [&] {
    for (int32_t event = 0; event < 500; ++event)
      for (int32_t stream : {0, 1}) {
        void *buffers[] = {nullptr, &counts[stream]};
        heddle_rt_launch(&device, stream, kernel, buffers, 2, nullptr, 0, 1, 1);
        heddle_rt_event_record(&device, stream, event);
        heddle_rt_event_wait(&device, 1 - stream, event);
      }
    heddle_rt_synchronize(&device);
  };
  issue();
  EXPECT_EQ(allocationsOf(issue), 0);
  EXPECT_EQ(counts[0], 1000);
  EXPECT_EQ(counts[1], 1000);
}

TEST(Allocation, LibraryCallsAllocateNothingOfOurs) {
  CpuDevice device(0, 2, false);
  heddle_rt_attention_desc attention;
  std::memset(&attention, 0, sizeof attention);
  attention.batch = 2, attention.queries = attention.keys = 100;
  attention.groups = attention.group_size = 1, attention.head = 16;
  attention.scale = 0.25f;
  for (int64_t *stride : {&attention.q_row_stride, &attention.k_row_stride,
                          &attention.v_row_stride, &attention.dq_row_stride,
                          &attention.dk_row_stride, &attention.dv_row_stride})
    *stride = 16;
  for (int64_t *stride :
       {&attention.q_batch_stride, &attention.k_batch_stride,
        &attention.v_batch_stride, &attention.dq_batch_stride,
        &attention.dk_batch_stride, &attention.dv_batch_stride})
    *stride = 1600;
  heddle_rt_attention_offsets offsets{};
  std::vector<float> x(3200, 0.5f), o(3200), lse(200), dq(3200), dk(3200),
      dv(3200);
  auto attend = [&] {
    heddle_rt_attention(&device, 0, &attention, &offsets, nullptr, nullptr,
                        x.data(), x.data(), x.data(), o.data(), lse.data());
    heddle_rt_attention_grad(&device, 0, &attention, &offsets, nullptr, nullptr,
                             x.data(), x.data(), x.data(), o.data(), lse.data(),
                             x.data(), dq.data(), dk.data(), dv.data());
    heddle_rt_synchronize(&device);
  };
  attend();
  EXPECT_EQ(allocationsOf(attend), 0);

  heddle_rt_matmul_desc product;
  std::memset(&product, 0, sizeof product);
  product.m = product.n = product.k = 50;
  product.a_row_stride = product.b_row_stride = product.c_row_stride = 50;
  product.a_column_stride = product.b_column_stride = 1;
  product.bias_type = -1;
  auto multiply = [&] {
    heddle_rt_matmul(&device, 0, &product, x.data(), x.data(), o.data(),
                     nullptr);
    heddle_rt_synchronize(&device);
  };
  multiply();
  // In each execution oneDNN makes a map of its arguments: a node for each of
  // A, B, C and the scratchpad, and the table. The number must not grow.
  int64_t first = allocationsOf(multiply);
  EXPECT_LE(first, 8);
  EXPECT_EQ(allocationsOf(multiply), first);
  EXPECT_FALSE(device.hasFailed());
}

} // namespace
