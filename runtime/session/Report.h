//===- Report.h - Memory and replicas of a session --------------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_REPORT_H
#define HEDDLE_RT_SESSION_REPORT_H

#include "session/state/SessionState.h"

#include <vector>

namespace heddle::runtime {

/// Implement the functions of Session that have these names.
std::vector<DeviceMemory> reportMemory(const SessionState &state);
Status checkReplicas(const SessionState &state);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_REPORT_H
