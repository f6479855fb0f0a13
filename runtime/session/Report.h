//===- Report.h - Memory, replicas and the trace of a session ---*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_REPORT_H
#define HEDDLE_RT_SESSION_REPORT_H

#include "session/SessionState.h"

#include <filesystem>
#include <vector>

namespace heddle::runtime {

/// Implement the functions of Session that have these names.
std::vector<DeviceMemory> reportMemory(const SessionState &state);
Status checkReplicas(const SessionState &state);
Status startTrace(SessionState &state, size_t maxEvents);
Status writeTrace(SessionState &state, const std::filesystem::path &file);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_REPORT_H
