//===- TraceData.h - What a page shows of a trace ---------------*- C++ -*-===//

#ifndef HEDDLE_LIB_REPORT_TRACEDATA_H
#define HEDDLE_LIB_REPORT_TRACEDATA_H

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle::report {

/// A call on the timeline. Times are seconds from the start of the step.
struct Call {
  int64_t process = 0, stream = 0;
  std::string call, operators, kind, axes;
  bool communicates = false;
  double start = 0, seconds = 0, exposed = 0;
  int64_t bytes = 0, repeat = 1;
  /// The call that it waited for, and the first one that waited for it; -1 if
  /// there is none. Indices into TraceData::calls.
  int64_t waitsFor = -1, awaitedBy = -1;

  double getEnd() const { return start + seconds; }
};

struct TraceData {
  bool isRun = false;
  std::string cluster; ///< of a simulation
  int64_t devices = 0;
  double seconds = 0, exposed = 0;
  std::string table; ///< of a run: the entry point
  int64_t run = 0, runs = 0;
  std::map<int64_t, std::string> processes; ///< names of ranks or rank sets
  std::vector<Call> calls;
  std::vector<std::pair<double, double>> memory; ///< bytes from a time on
  int64_t memoryOf = 0;       ///< the process whose memory it is
  llvm::json::Object summary; ///< of a simulation
};

/// Reads the parts of a trace that a page shows. In the trace of a real run,
/// these are the calls of one run of the table `table`.
llvm::Expected<TraceData>
readTrace(llvm::StringRef text, llvm::StringRef source, llvm::StringRef table);

/// Sets for each process of a real run which communication its compute stream
/// waits for. Where several are under way, the one that ends first is to blame.
void setExposedTimes(TraceData &data);

} // namespace heddle::report

#endif // HEDDLE_LIB_REPORT_TRACEDATA_H
