//===- RunSession.h - Sessions from the command line ------------*- C++ -*-===//
//
// Opens and ends the session of an artifact as the flags of a session say.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_COMMON_RUNSESSION_H
#define HEDDLE_TOOLS_COMMON_RUNSESSION_H

#include "Run.h"

#include <memory>
#include <string>
#include <vector>

namespace heddle::tools {

/// Loads an artifact. If `initialize`, its variables have initial values.
runtime::Expected<std::unique_ptr<runtime::Session>>
openSession(const std::filesystem::path &artifact, const SessionFlags &flags,
            bool initialize, runtime::SessionOptions options);

/// Returns the path of the weights to load; empty if there are none.
std::filesystem::path weightsFor(const runtime::Session &session,
                                 const SessionFlags &flags);

/// Prints the table of times and writes the trace, if flags ask for them.
/// `timed` says what the times are of, such as "2 training steps".
runtime::Status finishSession(runtime::Session &session,
                              const SessionFlags &flags,
                              const std::string &timed,
                              const std::vector<runtime::DeviceTimes> &times);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_RUNSESSION_H
