//===- HeddleOps.td - Ops of the model dialect -------------*- tablegen -*-===//
//
// Includes all ops of the dialect, for TableGen's generators and docs/generate.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_OPS
#define HEDDLE_OPS

include "dialects/Heddle/HeddleStateOps.td"
include "dialects/Heddle/HeddleProductOps.td"
include "dialects/Heddle/HeddleNetworkOps.td"
include "dialects/Heddle/HeddleShapeOps.td"
include "dialects/Heddle/HeddleLoopOps.td"

#endif // HEDDLE_OPS
