//===- ThreadPool.h - The cores of one device -------------------*- C++ -*-===//
//
// Runs numbered chunks of work on the caller's thread and the pool's workers. A
// thread that is free takes the next chunk. Callers derive chunks from the
// problem alone, never from the number of threads, so results do not depend on
// that number. Idle workers sleep, because several devices may share a core.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SUPPORT_THREADPOOL_H
#define HEDDLE_RT_SUPPORT_THREADPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace heddle::runtime {

class ThreadPool {
public:
  /// Makes a pool of `threads` threads, including the caller's. With `spin`,
  /// waiting threads watch memory for some microseconds before they sleep; use
  /// it only if every thread has a core of its own. Throws std::system_error if
  /// the system refuses a thread.
  ThreadPool(int threads, bool spin);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int size() const { return int(workers.size()) + 1; }

  /// Calls body(chunk, worker) once for every chunk in [0, chunks). `worker` is
  /// in [0, size()), and calls that run at the same time have different
  /// workers. Returns when all calls are done. Not reentrant. Allocates
  /// nothing.
  template <typename Body> void run(int64_t chunks, Body &&body) {
    using Function = std::remove_reference_t<Body>;
    runErased(
        chunks,
        [](void *context, int64_t chunk, int worker) {
          (*static_cast<Function *>(context))(chunk, worker);
        },
        const_cast<void *>(static_cast<const void *>(&body)));
  }

  /// Calls body(begin, end) likewise for ranges that cover [0, count). Each has
  /// length `grain`; the last may be shorter.
  template <typename Body>
  void forRanges(int64_t count, int64_t grain, Body &&body) {
    run((count + grain - 1) / grain, [&](int64_t chunk, int) {
      int64_t begin = chunk * grain;
      body(begin, begin + grain < count ? begin + grain : count);
    });
  }

private:
  using Function = void (*)(void *context, int64_t chunk, int worker);
  void runErased(int64_t chunks, Function function, void *context);
  void work(int worker);
  void joinWorkers();
  void claim(Function function, void *context, int64_t chunks, int worker);

  std::mutex mutex;
  std::condition_variable wake, done;
  // Guarded by `mutex`.
  Function function = nullptr; ///< null: workers have no job to join
  void *context = nullptr;
  int64_t chunks = 0;
  int inside = 0; ///< workers that run the current job
  bool stop = false;

  std::atomic<uint64_t> epoch{0};
  std::atomic<int64_t> next{0};
  std::atomic<int> insideHint{0}; ///< equals `inside`; read without the lock
  int spins;
  std::vector<std::thread> workers;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_SUPPORT_THREADPOOL_H
