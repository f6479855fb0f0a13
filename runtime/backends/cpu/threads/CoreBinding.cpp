//===- CoreBinding.cpp - Which cores run which threads --------------------===//

#include "backends/cpu/threads/CoreBinding.h"

#include <algorithm>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace heddle::runtime {

CoreBinding::CoreBinding(int64_t devices, int64_t cores) : cores(cores) {
  if (sched_getaffinity(0, sizeof before, &before) != 0)
    return; // the machine has more cores than the set
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &before))
      chosen.push_back(core);
  if (devices * cores > int64_t(chosen.size())) {
    chosen.clear();
    return;
  }
  // Begins with the core that runs this thread, so that programs that start on
  // different cores choose different first cores. They may still share the
  // cores of their other devices.
  auto here = std::find(chosen.begin(), chosen.end(), sched_getcpu());
  if (here != chosen.end())
    std::rotate(chosen.begin(), here, chosen.end());
}

void CoreBinding::bindTo(int64_t device) {
  if (chosen.empty())
    return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int64_t i = device * cores; i < (device + 1) * cores; ++i)
    CPU_SET(chosen[size_t(i)], &set);
  sched_setaffinity(0, sizeof set, &set);
}

CoreBinding::~CoreBinding() {
  if (!chosen.empty())
    sched_setaffinity(0, sizeof before, &before);
}

void wakeSoon() {
  prctl(PR_SET_TIMERSLACK, 1000); // nanoseconds; 50,000 by default
#ifdef SYS_sched_setattr
  // From Linux 6.12 on, the slice of an ordinary thread may be chosen, and a
  // thread with a short one runs first when it wakes. The C library of older
  // systems lacks the call. The thread keeps its policy and its priority.
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice, deadline, period; ///< nanoseconds
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 ||
      attributes.policy != SCHED_OTHER)
    return;
  attributes.slice = 100'000;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

} // namespace heddle::runtime
