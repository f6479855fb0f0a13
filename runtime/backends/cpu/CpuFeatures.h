//===- CpuFeatures.h - CPU features of this machine -------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_CPUFEATURES_H
#define HEDDLE_RT_BACKENDS_CPU_CPUFEATURES_H

#include "heddle_rt/status.h"

#include <string>
#include <vector>

namespace heddle::runtime {

/// An error if this machine is of another architecture than `triple` or lacks
/// one of `features` (LLVM's names, a leading "+" is ignored); it names all
/// that are missing.
Status checkCpu(const std::string &triple,
                const std::vector<std::string> &features);

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_CPUFEATURES_H
