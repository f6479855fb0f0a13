//===- CoreBinding.h - Which cores run which threads ------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_THREADS_COREBINDING_H
#define HEDDLE_RT_BACKENDS_CPU_THREADS_COREBINDING_H

#include <cstdint>
#include <sched.h>
#include <vector>

namespace heddle::runtime {

/// Binds the threads that the calling thread starts to some cores. On emulated
/// links, all devices wake at the same time from a collective. The system then
/// tends to run two of them on one core, one after the other, which causes a
/// delay that the emulated links would not cause. While the object lives, the
/// calling thread is bound too.
class CoreBinding {
public:
  /// Chooses cores for `devices` devices of `cores` cores each: those of the
  /// process, beginning with the one on which it runs. Binds nothing if the
  /// process has too few.
  CoreBinding(int64_t devices, int64_t cores);
  ~CoreBinding();
  CoreBinding(const CoreBinding &) = delete;
  CoreBinding &operator=(const CoreBinding &) = delete;

  /// Binds to the cores of a device: 0, 1, ...
  void bindTo(int64_t device);

private:
  cpu_set_t before;
  int64_t cores;
  std::vector<int> chosen; ///< empty: nothing is bound
};

/// Lets the calling thread run soon after it wakes, even if other threads are
/// busy on its core. For threads that mostly sleep, such as those that
/// communicate. Has no effect on a system without such a setting.
void wakeSoon();

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_THREADS_COREBINDING_H
