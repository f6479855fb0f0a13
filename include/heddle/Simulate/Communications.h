//===- Communications.h - Collectives and transfers of programs -*- C++ -*-===//

#ifndef HEDDLE_SIMULATE_COMMUNICATIONS_H
#define HEDDLE_SIMULATE_COMMUNICATIONS_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Simulate/CostModel.h"

namespace heddle {

/// Returns what a collective, a send or a receive moves. `topology` is that of
/// its mesh.
Communication getCommunication(rt::DeviceCallOpInterface call,
                               const MeshTopology &topology, MeshAttr mesh);

/// Returns the device that is the peer of `device` in a send or receive, or
/// nullopt if the op's operand depends on more than coordinates and constants.
std::optional<int64_t> getPeer(rt::DeviceCallOpInterface transfer,
                               const Communication &communication,
                               const MeshTopology &topology, MeshAttr mesh,
                               int64_t device);

} // namespace heddle

#endif // HEDDLE_SIMULATE_COMMUNICATIONS_H
