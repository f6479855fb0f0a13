//===- IssueRun.h - Issues the entries of a table ---------------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_ISSUERUN_H
#define HEDDLE_RT_SESSION_ISSUERUN_H

#include "session/state/SessionState.h"

namespace heddle::runtime {

/// Issues all entries of a table on a device, or repeats a run that the device
/// recorded. Does not wait for the device's streams. An error that the device
/// has recorded is not returned.
Status issueRun(heddle_rt_device &device, size_t table,
                const std::vector<PreparedEntry> &entries);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_ISSUERUN_H
