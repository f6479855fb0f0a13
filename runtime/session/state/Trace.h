//===- Trace.h - Recorded calls of a session's last runs --------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_TRACE_H
#define HEDDLE_RT_SESSION_TRACE_H

#include "device/Device.h"

#include <filesystem>
#include <vector>

namespace heddle::runtime {

struct SessionState;

/// The calls of one device in one run of a table. Times are nanoseconds of the
/// steady clock.
struct TracedRun {
  int64_t number = -1; ///< counts the runs of the table; -1: none yet
  int64_t begin = 0, end = 0;
  std::vector<TraceEvent> events; ///< in the order in which they ended
};

/// The last runs of each table. Memory is allocated in the first ones and used
/// again.
class Trace {
public:
  Trace(size_t devices, size_t tables, size_t keep);

  /// Gives a device the memory for its next run of a table.
  void beginRun(SessionState &state, size_t device, size_t table);
  /// Sets the times of a device's present run of a table.
  void setTimes(int32_t device, size_t table, int64_t begin, int64_t end) {
    TracedRun &run = current(size_t(device), table);
    run.begin = begin;
    run.end = end;
  }

  /// Writes all runs as JSON for Perfetto and chrome://tracing. docs/trace.md
  /// says what it contains.
  Status write(const SessionState &state,
               const std::filesystem::path &file) const;

private:
  TracedRun &current(size_t device, size_t table) {
    return runs[device][table][size_t(counts[device][table] - 1) % keep];
  }

  size_t keep;
  std::vector<std::vector<int64_t>> counts; ///< of runs, by device, table
  std::vector<std::vector<std::vector<TracedRun>>> runs; ///< by device, table
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_TRACE_H
