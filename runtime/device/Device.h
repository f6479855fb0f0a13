//===- Device.h - One rank --------------------------------------*- C++ -*-===//
//
// The state behind the opaque device pointer of generated code: the device's
// cores, its communicator, the prepared library calls, its first error and its
// times.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_DEVICE_DEVICE_H
#define HEDDLE_RT_DEVICE_DEVICE_H

#include "communicators/Communicator.h"
#include "heddle_rt/session.h"
#include "support/Message.h"
#include "support/ThreadPool.h"

#include <chrono>
#include <exception>
#include <memory>

namespace heddle::runtime {

class MatmulLibrary;
class AttentionLibrary;

/// A recorded call of generated code, for the trace. Times are nanoseconds of
/// the steady clock.
struct TraceEvent {
  const char *operation;
  const void *symbol; ///< kernel or descriptor; null for other calls
  WorkKind kind;
  int32_t stream;
  int64_t begin, end;
};

inline int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace heddle::runtime

struct heddle_rt_device {
  heddle_rt_device(int32_t rank, int cores, bool spin);
  ~heddle_rt_device();

  int32_t rank;
  heddle::runtime::ThreadPool pool;
  std::unique_ptr<heddle::runtime::Communicator> communicator;
  std::unique_ptr<heddle::runtime::MatmulLibrary> matmul;
  std::unique_ptr<heddle::runtime::AttentionLibrary> attention;

  heddle::runtime::Status error;
  int64_t errorTime = 0; ///< from nanoseconds(), when `error` was set
  heddle::runtime::DeviceTimes times;
  std::vector<heddle::runtime::TraceEvent>
      trace; ///< reserved when tracing starts
  bool tracing = false;

  /// Returns the bytes of scratch memory that the libraries hold.
  size_t scratchBytes() const;

  /// Records the first error, makes the peers stop, and returns the status for
  /// generated code.
  heddle_rt_status fail(heddle::runtime::Status status);

  /// Runs a call of generated code on a stream. All streams of a CPU device run
  /// synchronously with their caller. An asynchronous stream would queue the
  /// work here and run it on a thread of its own.
  template <typename Work>
  heddle_rt_status issue(int32_t stream, heddle::runtime::WorkKind kind,
                         const char *operation, const void *symbol,
                         Work &&work) {
    using namespace heddle::runtime;
    if (!error.ok())
      return 1;
    int64_t begin = nanoseconds();
    Status status;
    try {
      status = work();
    } catch (const std::exception &exception) {
      status = Status::error(exception.what());
    }
    int64_t end = nanoseconds();
    times.seconds[size_t(kind)] += double(end - begin) * 1e-9;
    ++times.calls[size_t(kind)];
    if (tracing && trace.size() < trace.capacity())
      trace.push_back({operation, symbol, kind, stream, begin, end});
    if (status.ok())
      return 0;
    return fail(std::move(status).in(operation));
  }
};

#endif // HEDDLE_RT_DEVICE_DEVICE_H
