//===- ThreadPool.cpp - The cores of one device ---------------------------===//

#include "support/ThreadPool.h"

namespace heddle::runtime {

static inline void pauseThread() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

ThreadPool::ThreadPool(int threads, bool spin) : spins(spin ? 1000 : 0) {
  try {
    for (int worker = 1; worker < threads; ++worker)
      workers.emplace_back([this, worker] { work(worker); });
  } catch (...) { // the system refuses a thread
    joinWorkers();
    throw;
  }
}

ThreadPool::~ThreadPool() { joinWorkers(); }

void ThreadPool::joinWorkers() {
  {
    std::lock_guard lock(mutex);
    stop = true;
    epoch.fetch_add(1, std::memory_order_release);
  }
  wake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::claim(Function function, void *context, int64_t chunks,
                       int worker) {
  for (;;) {
    int64_t chunk = next.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= chunks)
      return;
    function(context, chunk, worker);
  }
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < spins; ++spin) {
      if (epoch.load(std::memory_order_relaxed) != seen)
        break;
      pauseThread();
    }
    std::unique_lock lock(mutex);
    wake.wait(lock,
              [&] { return epoch.load(std::memory_order_relaxed) != seen; });
    seen = epoch.load(std::memory_order_relaxed);
    if (stop)
      return;
    if (!function)
      continue; // woke too late: the job is done
    Function jobFunction = function;
    void *jobContext = context;
    int64_t jobChunks = chunks;
    insideHint.store(++inside, std::memory_order_relaxed);
    lock.unlock();
    claim(jobFunction, jobContext, jobChunks, worker);
    lock.lock();
    insideHint.store(--inside, std::memory_order_relaxed);
    if (inside == 0)
      done.notify_one();
  }
}

void ThreadPool::runErased(int64_t count, Function body, void *bodyContext) {
  if (workers.empty() || count <= 1) {
    for (int64_t chunk = 0; chunk < count; ++chunk)
      body(bodyContext, chunk, 0);
    return;
  }
  {
    std::lock_guard lock(mutex);
    function = body;
    context = bodyContext;
    chunks = count;
    next.store(0, std::memory_order_relaxed);
    epoch.fetch_add(1, std::memory_order_release);
  }
  if (count > int64_t(workers.size()))
    wake.notify_all();
  else
    for (int64_t i = 1; i < count; ++i)
      wake.notify_one();
  claim(body, bodyContext, count, 0);
  // From here on no more workers join. Wait for those that have joined.
  std::unique_lock lock(mutex);
  function = nullptr;
  if (inside == 0)
    return;
  lock.unlock();
  for (int spin = 0; spin < spins; ++spin) {
    if (insideHint.load(std::memory_order_relaxed) == 0)
      break;
    pauseThread();
  }
  lock.lock();
  done.wait(lock, [&] { return inside == 0; });
}

} // namespace heddle::runtime
