//===- Parallel.h - Independent tasks on several threads --------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_PARALLEL_H
#define HEDDLE_LIB_SOLVER_SEARCH_PARALLEL_H

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace heddle::solver {

/// Runs `task(0) ... task(count - 1)`, each once, on up to `threads` threads
/// including the caller's; returns when all are done. Tasks must not depend on
/// each other.
template <typename Fn>
void runParallel(unsigned threads, size_t count, const Fn &task) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < count;)
      task(i);
  };
  std::vector<std::thread> helpers;
  size_t wanted = std::min<size_t>(threads, count);
  // If the system grants no more threads, the existing ones do the work.
  try {
    for (size_t i = 1; i < wanted; ++i)
      helpers.emplace_back(work);
  } catch (const std::system_error &) { // NOLINT(bugprone-empty-catch)
  }
  work();
  for (std::thread &t : helpers)
    t.join();
}

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_PARALLEL_H
