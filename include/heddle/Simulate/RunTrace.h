//===- RunTrace.h - Traces of real runs -------------------------*- C++ -*-===//
//
// Reads the traces that the runtime writes (docs/trace.md).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SIMULATE_RUNTRACE_H
#define HEDDLE_SIMULATE_RUNTRACE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

/// A call of one rank in one run.
struct TracedCall {
  std::string program; ///< empty for a transfer of a table
  int64_t index = -1;  ///< see CallNumber; -1: unknown
  std::string call;
  int64_t rank = 0, stream = 0, run = 0, microBatch = 0;
  std::string table;
  bool communicates = false;
  double start = 0, seconds = 0;
};

/// A whole run of a table on one rank.
struct TracedTable {
  std::string table;
  int64_t rank = 0, run = 0;
  double start = 0, seconds = 0;
};

struct RunTrace {
  int64_t devices = 0, cores = 0;
  /// The fingerprint of the program (heddle/Lower/ProgramFingerprint.h). Empty
  /// if the trace or its artifact is older than fingerprints.
  std::string program;
  std::vector<TracedCall> calls;
  std::vector<TracedTable> tables;

  /// Adds the runs of a later trace of the same program, or of any program if
  /// this trace has no runs. Returns an error if it is of another program.
  /// Without a fingerprint, only the number of devices can tell.
  llvm::Error append(const RunTrace &later);
};

/// Returns the times of each call of each program, from every run. A collective
/// waits for the last of its members, so only the shortest time among the ranks
/// counts; of a computation, every rank's time does.
std::map<std::pair<std::string, int64_t>, std::vector<double>>
getCallTimes(const RunTrace &trace);

/// Reads a trace from its text. `source` names the text in errors.
llvm::Expected<RunTrace> parseRunTrace(llvm::StringRef text,
                                       llvm::StringRef source);
llvm::Expected<RunTrace> loadRunTrace(llvm::StringRef path);

} // namespace heddle

#endif // HEDDLE_SIMULATE_RUNTRACE_H
