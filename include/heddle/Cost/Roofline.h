//===- Roofline.h - Time of an op from its work -----------------*- C++ -*-===//

#ifndef HEDDLE_COST_ROOFLINE_H
#define HEDDLE_COST_ROOFLINE_H

#include "dialects/Interfaces/Interfaces.h"
#include "heddle/Support/Cluster.h"

namespace heddle {

/// Returns the least seconds that a device needs for the work: the larger one
/// of FLOPs over its peak and bytes over its memory bandwidth, and at least its
/// launch (Williams, Waterman and Patterson, "Roofline", CACM 2009). The peak
/// is that of `elementType`, or else of f32, or else the least one of the
/// device.
double getRooflineSeconds(const Work &work, mlir::Type elementType,
                          const ClusterDevice &device);

} // namespace heddle

#endif // HEDDLE_COST_ROOFLINE_H
