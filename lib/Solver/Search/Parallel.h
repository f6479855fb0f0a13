//===- Parallel.h - Independent tasks on several threads --------*- C++ -*-===//

#ifndef HEDDLE_LIB_SOLVER_SEARCH_PARALLEL_H
#define HEDDLE_LIB_SOLVER_SEARCH_PARALLEL_H

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace heddle::solver {

/// Runs `Task(0) ... Task(Count - 1)`, each once, on up to `Threads` threads
/// including the caller's; returns when all are done. Tasks must not depend on
/// each other.
template <typename Fn>
void runParallel(unsigned Threads, size_t Count, const Fn &Task) {
  std::atomic<size_t> Next{0};
  auto Work = [&] {
    for (size_t I; (I = Next.fetch_add(1)) < Count;)
      Task(I);
  };
  std::vector<std::thread> Helpers;
  size_t Wanted = std::min<size_t>(Threads, Count);
  // Where the system grants no more threads, those that there are do the work.
  try {
    for (size_t I = 1; I < Wanted; ++I)
      Helpers.emplace_back(Work);
  } catch (const std::system_error &) { // NOLINT(bugprone-empty-catch)
  }
  Work();
  for (std::thread &T : Helpers)
    T.join();
}

} // namespace heddle::solver

#endif // HEDDLE_LIB_SOLVER_SEARCH_PARALLEL_H
