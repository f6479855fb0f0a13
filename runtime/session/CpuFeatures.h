//===- CpuFeatures.h - CPU features of this machine -------------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_CPUFEATURES_H
#define HEDDLE_RT_SESSION_CPUFEATURES_H

#include "heddle_rt/status.h"

#include <string>
#include <vector>

namespace heddle::runtime {

/// Returns an error if this machine's architecture is not that of `triple`, or
/// if it lacks one of `features` (LLVM's names; a leading "+" is ignored). The
/// error names all missing features.
Status checkCpu(const std::string &triple,
                const std::vector<std::string> &features);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_CPUFEATURES_H
