//===- CoreBindingTest.cpp - Wishes of a thread to the system -------------===//

#include "backends/cpu/threads/CoreBinding.h"
#include "gtest/gtest.h"
#include <sys/resource.h>
#include <thread>

using namespace heddle::runtime;

namespace {

TEST(WakeSoon, KeepsPolicyAndPriority) {
  std::thread([] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 5), 0); // of this thread only
    wakeSoon();
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 5);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    sched_param parameters{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &parameters), 0);
    wakeSoon();
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 5);
  }).join();
}

} // namespace
