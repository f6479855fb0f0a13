//===- EmulatedComputeTest.cpp - Devices that sleep for the model's time --===//

#include "TestArtifact.h"
#include "backends/cpu/SleepingDevice.h"
#include "backends/cpu/communicators/ThreadCommunicator.h"
#include "communicators/EmptyMessages.h"
#include "heddle_rt/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using namespace heddle::runtime;

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// 1 GFLOP/s in f32, 2 in bf16; 1 GB/s; a launch takes 1 ms.
const DeviceSpeed slow{1e-3, 1e9, {{"f32", 1e9}, {"bf16", 2e9}}};

//===----------------------------------------------------------------------===//
// Times of calls
//===----------------------------------------------------------------------===//

TEST(CallTimes, AreARoofline) {
  CallTimes times(slow, nullptr);
  EXPECT_DOUBLE_EQ(times.seconds({}), 1e-3);
  EXPECT_DOUBLE_EQ(times.seconds({4e9, 3e9}), 4 + 1e-3);
  EXPECT_DOUBLE_EQ(times.seconds({4e9, 3e9}, HEDDLE_RT_BF16), 3 + 1e-3);
  // A type that is not listed has the peak of f32, or else the least.
  EXPECT_DOUBLE_EQ(times.seconds({4e9, 3e9}, HEDDLE_RT_F64), 4 + 1e-3);
  DeviceSpeed narrow{0, 1e9, {{"bf16", 2e9}, {"f16", 1e9}}};
  EXPECT_DOUBLE_EQ(CallTimes(narrow, nullptr).seconds({4e9, 0}), 4);
}

TEST(CallTimes, KernelsAreLookedUp) {
  auto known = [](void *const *, int64_t, int64_t) {};
  auto unknown = [](void *const *, int64_t, int64_t) { FAIL(); };
  const heddle_rt_kernel_work table[] = {{known, 2'000'000'000, 8},
                                         {nullptr, 0, 0}};
  CallTimes times(slow, table);
  EXPECT_DOUBLE_EQ(times.secondsOf(known).value(), 2 + 1e-3);
  EXPECT_FALSE(times.secondsOf(unknown));
}

TEST(CallTimes, WorkOfAProduct) {
  heddle_rt_matmul_desc desc{};
  desc.m = 2;
  desc.n = 3;
  desc.k = 5;
  desc.a_type = desc.b_type = HEDDLE_RT_BF16;
  desc.c_type = HEDDLE_RT_F32;
  desc.bias_type = -1;
  CallWork work = workOf(desc);
  EXPECT_EQ(work.flops, 2 * 2 * 3 * 5);
  EXPECT_EQ(work.bytes, 2 * (10 + 15) + 4 * 6);
  // A batch of 7 with one B for all, a sum of 11, and a bias.
  desc.num_loops = 2;
  desc.loops[0] = {7, 10, 0, 6};
  desc.loops[1] = {11, 70, 15, 0};
  desc.bias_type = HEDDLE_RT_F32;
  work = workOf(desc);
  EXPECT_EQ(work.flops, 2 * 2 * 3 * 5 * 77 + 6 * 7);
  EXPECT_EQ(work.bytes, 2 * (10 * 77 + 15 * 11) + 4 * 6 * 7 + 4 * 3);
  // An accumulator is read, too.
  desc.accumulate = 1;
  EXPECT_EQ(workOf(desc).bytes, work.bytes + 4 * 6 * 7);
}

TEST(CallTimes, WorkOfOtherLibraryCalls) {
  heddle_rt_attention_desc desc{};
  desc.batch = 2;
  desc.queries = desc.keys = 4;
  desc.groups = 3;
  desc.group_size = 2;
  desc.head = 8;
  desc.type = HEDDLE_RT_BF16;
  // 2 x 3 x 2 heads of 4 x 4 scores.
  EXPECT_EQ(workOfAttention(desc).flops, 12 * 16 * (4 * 8 + 10));
  EXPECT_EQ(workOfAttention(desc).bytes, 2 * 8 * (2 * 48 + 2 * 24) + 4 * 48);
  desc.causal = 1; // 10 scores of 16
  EXPECT_EQ(workOfAttention(desc).flops, 12 * 10 * (4 * 8 + 10));
  EXPECT_EQ(workOfAttentionGrad(desc).flops, 12 * 10 * (10 * 8 + 10));
  EXPECT_EQ(workOfAttentionGrad(desc).bytes,
            2 * 8 * (4 * 48 + 4 * 24) + 4 * 48);

  CallWork work = workOfEmbeddingGrad(5, HEDDLE_RT_BF16, 8, 100, false);
  EXPECT_EQ(work.flops, 40);
  EXPECT_EQ(work.bytes, 2 * 40 + 4 * 5 + 4 * 800);
  work = workOfEmbeddingGrad(5, HEDDLE_RT_BF16, 8, 100, true);
  EXPECT_EQ(work.bytes, 2 * 40 + 4 * 5 + 4 * 40);
  work = workOfRotaryTable(16, 10);
  EXPECT_EQ(work.flops, 20 * 160);
  EXPECT_EQ(work.bytes, 4 * 320);
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// Issues ten copies of 10 MB, which take 21 ms each. They touch no memory.
void issueCopies(heddle_rt_device &device, int32_t stream) {
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(
        heddle_rt_copy(&device, stream, nullptr, 0, nullptr, 0, 1, 10'000'000),
        0);
}
constexpr double secondsOfCopies = 0.21;

SleepingDevice makeDevice() {
  return SleepingDevice(0, 2, {}, std::make_shared<CallTimes>(slow, nullptr));
}

TEST(SleepingDevice, SleepsOnOneStreamAddUp) {
  SleepingDevice device = makeDevice();
  for (int run = 0; run < 2; ++run) {
    Clock::time_point begin = Clock::now();
    issueCopies(device, 1);
    ASSERT_EQ(heddle_rt_synchronize(&device), 0);
    EXPECT_GE(secondsSince(begin), secondsOfCopies);
  }
  EXPECT_EQ(device.times.calls[size_t(WorkKind::Copy)], 20);
}

TEST(SleepingDevice, SleepsOnTwoStreamsOverlap) {
  SleepingDevice device = makeDevice();
  Clock::time_point begin = Clock::now();
  for (int32_t stream : {0, 1})
    issueCopies(device, stream);
  ASSERT_EQ(heddle_rt_synchronize(&device), 0);
  double seconds = secondsSince(begin);
  EXPECT_GE(seconds, secondsOfCopies);
  EXPECT_LT(seconds, 2 * secondsOfCopies);
}

TEST(SleepingDevice, EventsOrderSleeps) {
  SleepingDevice device = makeDevice();
  Clock::time_point begin = Clock::now();
  issueCopies(device, 0);
  heddle_rt_event_record(&device, 0, 0);
  heddle_rt_event_wait(&device, 1, 0);
  issueCopies(device, 1);
  ASSERT_EQ(heddle_rt_synchronize(&device), 0);
  EXPECT_GE(secondsSince(begin), 2 * secondsOfCopies);
}

TEST(SleepingDevice, RefusesAKernelWithoutWork) {
  SleepingDevice device = makeDevice();
  auto kernel = [](void *const *, int64_t, int64_t) { FAIL(); };
  EXPECT_NE(heddle_rt_launch(&device, 0, kernel, nullptr, 0, nullptr, 0, 1, 1),
            0);
  EXPECT_EQ(device.error().message(),
            "launch: cannot emulate a kernel whose work the artifact does not "
            "list (compile the model again)");
}

TEST(EmptyMessages, MembersMeetAndDataStay) {
  ThreadPool pool(1, false); // stateless with one thread
  std::vector<std::vector<ThreadPool *>> pools(2, {&pool});
  auto communicators = emptyMessages(makeThreadCommunicators(
      {{"x", 2}}, {{{0}, {}}}, pools, {std::chrono::seconds(60), false}));
  float values[2] = {1, 2}, rows[2][2] = {{3, 4}, {5, 6}};
  std::atomic<bool> isCalled{false}, isSent{false};
  std::thread other([&] {
    Communicator &second = *communicators[1][0];
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    isCalled = true;
    EXPECT_TRUE(second
                    .allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, &values[1],
                               &values[1], 1)
                    .ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    isSent = true;
    EXPECT_TRUE(second.send(0, 0, HEDDLE_RT_F32, &values[1], 1).ok());
    EXPECT_TRUE(
        second.allGather(0, HEDDLE_RT_F32, &values[1], rows[1], 1).ok());
  });
  Communicator &first = *communicators[0][0];
  EXPECT_TRUE(
      first
          .allReduce(0, HEDDLE_RT_SUM, HEDDLE_RT_F32, &values[0], &values[0], 1)
          .ok());
  EXPECT_TRUE(isCalled);
  EXPECT_TRUE(first.recv(0, 1, HEDDLE_RT_F32, &values[0], 1).ok());
  EXPECT_TRUE(isSent);
  EXPECT_TRUE(first.allGather(0, HEDDLE_RT_F32, &values[0], rows[0], 1).ok());
  other.join();
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 2);
  EXPECT_EQ(rows[0][0], 3);
  EXPECT_EQ(rows[1][1], 6);
}

//===----------------------------------------------------------------------===//
// Sessions
//===----------------------------------------------------------------------===//

TEST(EmulatedCompute, AProgramTakesTheModelsTime) {
  TestArtifact artifact;
  SessionOptions options;
  options.network = NetworkInfo{"slow", {{"all", 4, 0, 1e9}}, slow};
  options.emulateCompute = true;
  auto session = Session::load(artifact.path, options);
  ASSERT_TRUE(session.ok()) << session.message();
  EXPECT_TRUE((*session)->emulatesCompute());
  const std::vector<float> x(8, 1);
  float sum = 5;
  Clock::time_point begin = Clock::now();
  Status status =
      (*session)->run("step", {bytesOf(x)}, {writableBytesOf(sum), {}});
  ASSERT_TRUE(status.ok()) << status.message();
  // The kernel's launch takes 51 ms, that of the all-reduce 1 ms.
  EXPECT_GE(secondsSince(begin), 0.052);
  // Nothing was computed or sent, nor initialized.
  EXPECT_EQ(sum, 0);
  std::vector<float> weight(30, 1);
  ASSERT_TRUE((*session)->readVariable("weight", writableBytesOf(weight)).ok());
  EXPECT_EQ(weight, std::vector<float>(30));
}

TEST(EmulatedCompute, NeedsACluster) {
  TestArtifact artifact;
  SessionOptions options;
  options.emulateCompute = true;
  EXPECT_EQ(Session::load(artifact.path, options).message(),
            "expected a network whose devices to emulate, got none");
}

} // namespace
