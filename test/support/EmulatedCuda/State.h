//===- State.h - Memory, streams and graphs of the emulated GPU -*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_EMULATEDCUDA_STATE_H
#define HEDDLE_TEST_SUPPORT_EMULATEDCUDA_STATE_H

#include "EmulatedCuda.h"

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>

namespace heddle::emulated {

using Result = runtime::cuda::Result;
/// Values of CUresult.
enum : Result {
  kInvalidValue = 1,
  kNoMemory = 2,
  kNoDevice = 100,
  kInvalidContext = 201,
  kInvalidImage = 218,
  kInvalidHandle = 400,
  kNotFound = 500,
  kCaptureUnsupported = 900,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kLaunchFailed = 719
};

/// One record of an event.
struct Record {
  bool isDone = false;
  double time = 0; ///< of the GPU's clock, in microseconds, when it is done
  struct Capture *capture = nullptr; ///< that it is a part of
};

/// An entry of a stream's queue. Returns a message about a fault, or "".
struct Operation {
  enum class Kind { Work, Record, Wait } kind = Kind::Work;
  std::function<std::string()> work;
  std::shared_ptr<Record> record;
  /// Whether work that waits for the clock would end now; null: it does not
  /// wait.
  std::function<bool()> isDue = nullptr;

  bool canGoOn() const;
};

struct StreamState {
  std::deque<Operation> queue;
  Capture *capture = nullptr;
  bool isBranch = false; ///< of a launched graph: goes when it is empty
  uint64_t rank = 0;     ///< in ranked order, that of the highest rank runs
};

/// A recording: the operations of each stream that takes part.
struct Capture {
  StreamState *origin = nullptr;
  std::vector<StreamState *> order; ///< the origin first
  std::map<StreamState *, std::vector<Operation>> lists;
};
using GraphState = std::vector<std::vector<Operation>>;

struct EventState {
  std::shared_ptr<Record> last;
  StreamState *stream = nullptr; ///< of the last record
};

struct ModuleState {
  std::map<std::string, struct FunctionState> functions;
};
struct FunctionState {
  std::string name;
  size_t parameters = 0;
  unsigned threads = 0; ///< that a block must have; 0: any number
  GpuEmulator *emulator = nullptr;
};

/// The GPU. All functions of the driver hold its lock.
class Gpu {
public:
  static Gpu &get();

  std::mutex mutex;
  Machine machine;
  Counts counts;
  std::string fault; ///< the first one; later work fails

  // Memory.
  Result allocate(uint64_t &address, size_t bytes);
  Result release(uint64_t address);
  size_t usedBytes() const { return used; }
  /// Returns a message if the bytes are not within one allocation.
  std::string check(uint64_t address, size_t bytes, const char *what) const;
  /// Returns the allocation that has an address; bytes 0 if none has.
  GpuBuffer find(uint64_t address) const;
  /// Returns whether a launch of heddle_end_flow would end now.
  bool isFlowOver(const std::vector<uint64_t> &parameters) const;

  // Streams.
  std::set<StreamState *> streams;
  StreamState *addStream();
  void issue(StreamState *stream, Operation operation);
  /// Runs queued operations until a stream is empty; null: all streams. Gives
  /// the lock to others between two operations.
  Result drain(StreamState *stream);
  Result report(std::string message);
  std::mt19937_64 random{1};
  double clock = 0; ///< the time that products took, in microseconds

  // Kernels.
  std::vector<std::unique_ptr<GpuEmulator>> provided;
  /// Provides the kernels of the first module that is loaded; may be empty.
  std::function<std::unique_ptr<GpuEmulator>()> loadKernels;
  GpuEmulator *findEmulator(const std::string &kernel, std::string &log);
  std::string launch(const FunctionState &function, unsigned grid,
                     unsigned block, const std::vector<uint64_t> &parameters);

  /// Checks the accesses of every kernel once more.
  void forgetChecks() { checked.clear(); }

private:
  struct Allocation {
    size_t bytes = 0, mapped = 0;
    void *start = nullptr;
  };
  /// While it lives, the memory of the GPU can be read and written.
  friend class Access;
  /// Opens or closes all allocations, or the one that has an address.
  void protect(bool isOpen, uint64_t address);
  std::string checkBorders(uint64_t address, const Allocation &allocation);

  /// Chooses among the streams that can go on. At times all are equal. At times
  /// they have ranks, so that some run far ahead of others.
  StreamState *chooseStream(const std::vector<StreamState *> &ready);
  bool isRanked = false;

  std::map<uint64_t, Allocation> allocations;
  size_t used = 0;
  int open = 0;
  std::unique_ptr<GpuEmulator> library;
  std::set<std::string> checked; ///< kernels whose accesses were checked
};

/// Opens the memory of the GPU; with an address, only the allocation that has
/// it, which takes fewer system calls.
class Access {
public:
  explicit Access(Gpu &gpu, uint64_t address = 0) : gpu(gpu), address(address) {
    if (gpu.open == 0)
      gpu.protect(true, address);
    gpu.open += address == 0;
  }
  ~Access() {
    gpu.open -= address == 0;
    if (gpu.open == 0)
      gpu.protect(false, address);
  }

private:
  Gpu &gpu;
  const uint64_t address;
};

} // namespace heddle::emulated

#endif // HEDDLE_TEST_SUPPORT_EMULATEDCUDA_STATE_H
