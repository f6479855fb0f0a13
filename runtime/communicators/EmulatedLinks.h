//===- EmulatedLinks.h - Communication as slow as a network's ---*- C++ -*-===//
//
// Wraps communicators of any kind. The wrapped communicators do the work. Each
// call then sleeps until the emulated network would have finished it too, so
// overlap, pipelines and plans can be measured on a machine that has no such
// network.
//
// A collective is on the network from the moment at which its last member calls
// it. A transfer is on the network from its send on: the data may travel before
// the receiver asks for them. Sender and receiver both wait for its end. A
// group of one sends nothing.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_COMMUNICATORS_EMULATEDLINKS_H
#define HEDDLE_RT_COMMUNICATORS_EMULATEDLINKS_H

#include "communicators/Communicator.h"
#include "communicators/Network.h"

#include <chrono>
#include <memory>
#include <span>
#include <vector>

namespace heddle::runtime {

/// Returns what a collective of the members `ranks` sends over the links. For
/// transfers, see Links::transfer.
Traffic trafficOf(const Collective &call, std::span<const int32_t> ranks,
                  const Links &links);

/// Wraps communicators, by rank of the mesh and stream. Streams share the
/// network, and so may other sets of communicators. `timeout` is the longest
/// time that a rank, whose part of a collective is done, waits for the others
/// to call it.
std::vector<std::vector<std::unique_ptr<Communicator>>> emulateLinks(
    std::vector<std::vector<std::unique_ptr<Communicator>>> communicators,
    const std::vector<MeshAxis> &mesh, const std::vector<GroupInfo> &groups,
    const std::shared_ptr<Network> &network,
    std::chrono::milliseconds timeout = std::chrono::seconds(120));

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_EMULATEDLINKS_H
