//===- Accesses.h - Bounds and races of emulated threads --------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_GPUEMULATOR_ACCESSES_H
#define HEDDLE_TEST_SUPPORT_GPUEMULATOR_ACCESSES_H

#include "GpuEmulator.h"

namespace heddle {

/// The threads of a warp.
inline constexpr int32_t kWarp = 32;

/// A thread at the moment of an access, with the barriers that it has passed.
struct ThreadTime {
  int32_t block = -1, thread = -1;
  /// The number of barriers of the block, and of the warp (those of the block
  /// count, too), that the thread has passed.
  int32_t blockBarriers = 0, warpBarriers = 0;
};

/// The accesses of one launch.
class Accesses {
public:
  explicit Accesses(llvm::ArrayRef<GpuBuffer> buffers);

  /// Checks one access and records it. Returns a message about a fault, or an
  /// empty string.
  std::string check(const ThreadTime &now, uintptr_t address, size_t bytes,
                    bool isWrite);
  /// Forgets a buffer, whose memory the next block uses for itself.
  void forget(const void *data);

private:
  struct Element {
    ThreadTime writer;
    ThreadTime readers[2]; ///< the last two different threads
  };
  struct Shadow {
    GpuBuffer buffer;
    /// Made when one of their elements is first accessed.
    std::vector<std::vector<Element>> pages;
    Element &getElement(size_t index);
  };
  std::vector<Shadow> shadows;
};

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_GPUEMULATOR_ACCESSES_H
