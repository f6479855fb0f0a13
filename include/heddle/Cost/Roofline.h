//===- Roofline.h - Time of an op from its work -----------------*- C++ -*-===//

#ifndef HEDDLE_COST_ROOFLINE_H
#define HEDDLE_COST_ROOFLINE_H

#include "dialects/Interfaces/Interfaces.h"
#include "heddle/Support/Cluster.h"
#include <optional>

namespace heddle {

/// Returns the operations a second that large products of an element type reach
/// on a device: its peak times its efficiency. Returns nullopt if the cluster
/// states no peak.
std::optional<double> getProductRate(mlir::Type elementType,
                                     const ClusterDevice &device);

/// Returns the product rate of the type, or else that of f32, or else that of
/// any type for which the cluster states a peak. For choices that need no exact
/// times.
double getNearProductRate(mlir::Type elementType, const ClusterDevice &device);

/// Returns the seconds of an op by a roofline: the launch, and then the longer
/// one of FLOPs over `rate` and bytes over the rate that the memory reaches
/// (Williams, Waterman and Patterson, "Roofline", CACM 2009).
double getRooflineSeconds(const Work &work, double rate,
                          const ClusterDevice &device);

} // namespace heddle

#endif // HEDDLE_COST_ROOFLINE_H
