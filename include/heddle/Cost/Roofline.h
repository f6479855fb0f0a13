//===- Roofline.h - Time of an op from its work -----------------*- C++ -*-===//

#ifndef HEDDLE_COST_ROOFLINE_H
#define HEDDLE_COST_ROOFLINE_H

#include "dialects/Interfaces/Interfaces.h"
#include "heddle/Support/Cluster.h"
#include <optional>

namespace heddle {

/// Returns the operations a second of a device in dense products of an element
/// type; nullopt if the cluster states none.
std::optional<double> getPeakRate(mlir::Type elementType,
                                  const ClusterDevice &device);

/// Returns the seconds of an op by a roofline: the launch, and then the longer
/// one of FLOPs over `peakRate` and bytes over the memory bandwidth (Williams,
/// Waterman and Patterson, "Roofline", CACM 2009).
double getRooflineSeconds(const Work &work, double peakRate,
                          const ClusterDevice &device);

} // namespace heddle

#endif // HEDDLE_COST_ROOFLINE_H
