//===- EmptyMessages.h - Communication that moves no data -------*- C++ -*-===//
//
// Wraps communicators of any kind. Members meet in every collective, and a
// receive waits for its send, but no element moves: the wrapped communicators
// see counts of 0. For emulated devices, whose memory holds nothing.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_COMMUNICATORS_EMPTYMESSAGES_H
#define HEDDLE_RT_COMMUNICATORS_EMPTYMESSAGES_H

#include "communicators/Communicator.h"

#include <memory>
#include <vector>

namespace heddle::runtime {

/// Wraps communicators, by rank of the mesh and stream.
std::vector<std::vector<std::unique_ptr<Communicator>>> emptyMessages(
    std::vector<std::vector<std::unique_ptr<Communicator>>> communicators);

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_EMPTYMESSAGES_H
