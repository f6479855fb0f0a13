//===- Device.h - One rank --------------------------------------*- C++ -*-===//
//
// The interface behind the opaque device pointer of generated code. A backend
// (device/Backend.h) implements it for one kind of device.
//
// One thread at a time makes the calls of a program. They have the names and
// parameters of heddle_rt/abi.h, which says what they do. Each call issues work
// on a stream and returns an error only if the work cannot be issued. Work that
// fails later reports it by `fail`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_DEVICE_DEVICE_H
#define HEDDLE_RT_DEVICE_DEVICE_H

#include "communicators/Collective.h"
#include "device/Region.h"
#include "heddle_rt/session.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace heddle::runtime {

/// The place of a call in the run of a table.
struct CallPlace {
  int32_t entry = -1; ///< of the table, as the device runs it
  int32_t call = -1;  ///< counts the calls that the entry issues
};

/// A part of the memory that a device needs.
struct MemoryPart {
  std::string name; ///< "workspace of cuBLASLt"
  double bytes;
};

inline double totalBytes(std::span<const MemoryPart> parts) {
  double bytes = 0;
  for (const MemoryPart &part : parts)
    bytes += part.bytes;
  return bytes;
}

/// A recorded call, for the trace. Times are nanoseconds of the steady clock.
struct TraceEvent {
  const char *operation;
  WorkKind kind;
  int32_t stream;
  CallPlace place;
  int64_t begin, end;
};

inline int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace heddle::runtime

struct heddle_rt_device {
  template <typename T> using Expected = heddle::runtime::Expected<T>;
  using Status = heddle::runtime::Status;
  using Region = heddle::runtime::Region;

  explicit heddle_rt_device(int32_t rank) : rank(rank) {}
  virtual ~heddle_rt_device();
  heddle_rt_device(const heddle_rt_device &) = delete;
  heddle_rt_device &operator=(const heddle_rt_device &) = delete;

  const int32_t rank;

  //===--------------------------------------------------------------------===//
  // Memory. The copies of the host return when they are done; they wait for no
  // stream. Several threads may copy at once.
  //===--------------------------------------------------------------------===//

  virtual Expected<std::unique_ptr<Region>> allocate(size_t bytes) = 0;
  virtual Status copyToDevice(void *to, const void *from, size_t bytes) = 0;
  virtual Status copyToHost(void *to, const void *from, size_t bytes) = 0;
  /// Returns the bytes of scratch memory that the library calls hold.
  virtual size_t scratchBytes() const = 0;
  /// Returns the memory that the library calls of the program will hold, as far
  /// as it is known when the program is loaded.
  virtual std::vector<heddle::runtime::MemoryPart> workspaces() const {
    return {};
  }

  /// Calls body(begin, end) for every range of `grain` elements of [0, count)
  /// (the last may be shorter), on the host's threads that serve this device.
  /// Returns the first error.
  virtual Status
  runOnHost(int64_t count, int64_t grain,
            const std::function<Status(int64_t begin, int64_t end)> &body) = 0;

  //===--------------------------------------------------------------------===//
  // Calls of a program.
  //===--------------------------------------------------------------------===//

  virtual Status launch(int32_t stream, heddle_rt_kernel_fn kernel,
                        std::span<void *const> buffers,
                        std::span<const int64_t> words, int64_t blocks,
                        int64_t grain) = 0;
  /// By default an error: a device of this kind has no list of kernels.
  virtual Status launchKernel(int32_t stream, int32_t kernel,
                              std::span<const uint64_t> parameters);
  virtual Status matmul(int32_t stream, const heddle_rt_matmul_desc &desc,
                        const void *a, const void *b, void *c,
                        const void *bias) = 0;
  /// By default an error: the product library of this kind of device has no
  /// epilogues.
  virtual Status fusedMatmul(int32_t stream, const heddle_rt_matmul_desc &desc,
                             heddle_rt_epilogue epilogue, const void *a,
                             const void *b, void *c, const void *bias,
                             void *extra);
  virtual Status attention(int32_t stream, const heddle_rt_attention_desc &desc,
                           const heddle_rt_attention_offsets &offsets,
                           const int64_t *step, const void *mask, const void *q,
                           const void *k, const void *v, void *o,
                           float *lse) = 0;
  virtual Status attentionGrad(int32_t stream,
                               const heddle_rt_attention_desc &desc,
                               const heddle_rt_attention_offsets &offsets,
                               const int64_t *step, const void *mask,
                               const void *q, const void *k, const void *v,
                               const void *o, const float *lse, const void *d_o,
                               void *dq, void *dk, void *dv) = 0;
  virtual Status embeddingGrad(int32_t stream, const int32_t *ids,
                               int64_t numIds, const void *rows, int32_t type,
                               int64_t width, int64_t firstRow,
                               int64_t tableRows, bool accumulate,
                               float *tableGrad) = 0;
  virtual Status rotaryTable(int32_t stream, const double *frequencies,
                             int64_t half, int64_t first, int64_t rows,
                             float *cosines, float *sines) = 0;
  virtual Status copy(int32_t stream, const void *from, int64_t fromStride,
                      void *to, int64_t toStride, int64_t blocks,
                      int64_t bytes) = 0;
  virtual Status fillZero(int32_t stream, void *to, int64_t bytes) = 0;
  virtual Status collective(int32_t stream,
                            const heddle::runtime::Collective &call) = 0;

  /// Returns true if the call that issues a receive blocks until the message
  /// was sent. A copy of a sent message is kept until it is received. Such a
  /// device is used by several threads: while one issues calls of programs,
  /// others issue transfers, and record and wait for events. Each calls
  /// `useThread` first.
  virtual bool waitsInReceives() const { return false; }
  virtual Status useThread();

  virtual Status recordEvent(int32_t stream, int32_t event) = 0;
  virtual Status waitEvent(int32_t stream, int32_t event) = 0;
  /// Waits for all streams, also after the device has failed: when it returns,
  /// no stream touches memory. Returns the device's error.
  virtual Status synchronize() = 0;

  //===--------------------------------------------------------------------===//
  // Runs of tables. Each run of a table issues the same calls, so a device may
  // record one run and repeat it.
  //===--------------------------------------------------------------------===//

  /// Begins a run of the table with this index. Returns true if the device has
  /// issued all of its calls itself: then the caller issues none.
  virtual Expected<bool> beginRun(size_t table);
  /// Called after all calls of a run were issued.
  virtual Status endRun();

  //===--------------------------------------------------------------------===//
  // Errors. Any thread may call these.
  //===--------------------------------------------------------------------===//

  /// Records the first error, makes the peers stop, and returns the status for
  /// generated code. `place` is that of the call that failed.
  heddle_rt_status fail(Status status, heddle::runtime::CallPlace place = {});
  bool hasFailed() const { return failed.load(std::memory_order_acquire); }
  /// The first error, the call that failed, and when it did (`nanoseconds()`).
  Status error() const;
  heddle::runtime::CallPlace errorPlace() const;
  int64_t errorTime() const;

  /// Collectives of this rank with its peers, one object for each stream. Empty
  /// on a device that has no peers.
  std::vector<std::unique_ptr<heddle::runtime::Communicator>> communicators;

  /// The call that the host issues. Used by the host alone.
  heddle::runtime::CallPlace place;
  /// Times of finished calls, and the list to which a trace adds them; null: no
  /// trace. The host may access both while all streams are idle.
  heddle::runtime::DeviceTimes times;
  std::vector<heddle::runtime::TraceEvent> *trace = nullptr;

protected:
  /// Drops all work that has not started. `fail` calls this.
  virtual void dropWork() {}

private:
  std::atomic<bool> failed{false};
  mutable std::mutex errorMutex;
  Status firstError;                          ///< guarded by `errorMutex`
  heddle::runtime::CallPlace firstErrorPlace; ///< guarded by `errorMutex`
  int64_t firstErrorTime = 0;                 ///< guarded by `errorMutex`
};

#endif // HEDDLE_RT_DEVICE_DEVICE_H
