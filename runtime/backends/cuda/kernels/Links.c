//===- Links.c - The time that communication takes on emulated links ------===//
//
// One thread works. The deadline of a flow is computed on the GPU in each run,
// so a recorded run may be repeated.
//
//===----------------------------------------------------------------------===//

#include "Common.h"

/// Nanoseconds of a clock that all of the GPU shares.
static inline uint64_t now(void) {
  return (uint64_t)__nvvm_read_ptx_sreg_globaltimer();
}
static inline uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/// Begins a flow now, and writes the time at which it ends. `loads` has `count`
/// pairs: a link, and the nanoseconds for which the flow keeps it busy.
/// clocks[i] is the time at which link i has carried all flows so far. Several
/// flows may begin at the same time. The last byte arrives `latency` after it
/// was sent, and no earlier than the flow takes `alone`.
KERNEL heddle_begin_flow(const uint64_t *loads, int64_t count, uint64_t *clocks,
                         int64_t latency, int64_t alone, uint64_t *end) {
  if (thread() != 0)
    return;
  uint64_t begin = now(), last = begin + (uint64_t)alone;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t *clock = clocks + loads[2 * i];
    uint64_t busy = 0, free;
    do
      free = later(busy, begin) + loads[2 * i + 1];
    while (!__atomic_compare_exchange_n(clock, &busy, free, /*weak=*/0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    last = later(last, free + (uint64_t)latency);
  }
  *end = last;
}

/// Ends no earlier than the flow, unless the host sets `isStopped` meanwhile.
KERNEL heddle_end_flow(const uint64_t *end, const uint64_t *isStopped) {
  if (thread() != 0)
    return;
  uint64_t last = *end;
  while (now() < last && !__atomic_load_n(isStopped, __ATOMIC_RELAXED))
    __nvvm_nanosleep(500);
}
