//===- HeddleOps.td - Ops of the model dialect -------------*- tablegen -*-===//
//
// Includes all ops of the dialect, for TableGen's generators and docs/generate.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_OPS
#define HEDDLE_OPS

include "dialects/Heddle/Ops/HeddleStateOps.td"
include "dialects/Heddle/Ops/HeddleProductOps.td"
include "dialects/Heddle/Ops/HeddleNetworkOps.td"
include "dialects/Heddle/Ops/HeddleShapeOps.td"
include "dialects/Heddle/Ops/HeddleLoopOps.td"
include "dialects/Heddle/Ops/HeddleScheduleOps.td"

#endif // HEDDLE_OPS
