//===- Fibers.h - The threads of an emulated block --------------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_GPUEMULATOR_FIBERS_H
#define HEDDLE_TEST_SUPPORT_GPUEMULATOR_FIBERS_H

#include "Accesses.h"
#include <functional>
#include <string>
#include <vector>

namespace heddle {

/// Runs the threads of one block at a time, each as a fiber with a stack of its
/// own. A fiber runs until it ends or waits for other threads.
class Fibers {
public:
  explicit Fibers(int32_t threads);
  ~Fibers();
  Fibers(const Fibers &) = delete;

  /// Calls `body` in every thread of a block. Returns a message about the first
  /// fault, or an empty string. After a fault, the threads do not go on.
  /// Without `accesses`, accesses are not checked.
  std::string run(int32_t block, bool backwards, Accesses *accesses,
                  const std::function<void()> &body);

  void setBlocks(int32_t blocks) { numBlocks = blocks; }

  /// The fibers that run now; null outside of `run`.
  static thread_local Fibers *current;

  // What a running thread calls. A site tells the calls of a kernel apart: its
  // threads may not wait for each other at different ones.
  using Site = const void *;
  int32_t thread() const { return running; }
  int32_t block() const { return blockIndex; }
  int32_t blocks() const { return numBlocks; }
  int32_t blockSize() const { return int32_t(fibers.size()); }
  void waitForBlock(Site site);
  void waitForWarp(Site site, uint32_t lanes);
  /// Returns the value of the lane whose number differs in the bits of
  /// `distance`.
  uint32_t exchange(Site site, uint32_t lanes, uint32_t value,
                    uint32_t distance);
  /// Returns a bit for each lane of the warp: whether its condition holds.
  uint32_t vote(Site site, uint32_t lanes, bool condition);
  void access(uintptr_t address, size_t bytes, bool isWrite);

private:
  enum class State { Ready, AtBlock, AtWarp, AtExchange, Ended };
  struct Fiber {
    void *stack = nullptr; ///< of `kStackBytes`
    void *pointer = nullptr;
    State state = State::Ready;
    Site site = nullptr; ///< where it waits
    uint32_t value = 0;
    ThreadTime time;
  };

  static void enter();
  void start(Fiber &fiber);
  void wait(State state, Site site = nullptr);
  void fault(std::string message);
  /// Reports a fault of the running thread, which does not go on.
  void endWithFault(std::string message);
  void checkLanes(uint32_t lanes);
  /// Makes threads ready whose condition holds. Returns false if there are
  /// none.
  bool release();
  void releaseWarp(size_t first, size_t end);
  /// Reports a thread of a warp that waits at another site than the first one.
  bool haveOneSite(size_t first, size_t end);

  std::vector<Fiber> fibers;
  void *scheduler = nullptr; ///< its stack pointer
  int32_t running = -1, blockIndex = -1, numBlocks = 0;
  const std::function<void()> *body = nullptr;
  Accesses *accesses = nullptr;
  std::string message;
};

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_GPUEMULATOR_FIBERS_H
