//===- ProfileRuns.h - Runs of programs that measure ------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_PROFILERUNS_H
#define HEDDLE_TOOLS_HEDDLE_PROFILERUNS_H

#include "../../common/Run.h"

namespace heddle::tools {

struct RunsOptions {
  int64_t runs = 10; ///< of each program, behind one that is not counted
  /// A program stops earlier, after the least number of runs, when it has taken
  /// this long.
  double seconds = 30;
  int64_t least = 3;
  runtime::SessionOptions session;
};

/// Runs every table of an artifact on made-up data, and writes the trace of all
/// runs but the first. The tables take turns, so a disturbance of the machine
/// hits some runs of each and not all runs of one. Shows progress on standard
/// error. Returns the number of cores of each device.
runtime::Expected<int> runTables(const std::filesystem::path &artifact,
                                 const std::filesystem::path &trace,
                                 const RunsOptions &options);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_PROFILERUNS_H
