//===- ConditionWait.cpp - Waits with libstdc++ of GCC 11 -----------------===//
//
// GCC 12 gave std::condition_variable::wait a new version, GLIBCXX_3.4.30. A
// library that calls it does not load with GCC 11, whose libstdc++ machines
// with glibc 2.34 have. The linker's --wrap sends the library's calls here.
//
//===----------------------------------------------------------------------===//

#include <condition_variable>
#include <mutex>
#include <pthread.h>

extern "C" __attribute__((visibility("hidden"))) void
__wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable *condition, std::unique_lock<std::mutex> *lock) {
  // It fails only if the mutex is not locked, which is an error of the caller.
  pthread_cond_wait(condition->native_handle(), lock->mutex()->native_handle());
}
