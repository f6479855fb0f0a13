//===- Collective.cpp - A collective or transfer as data ------------------===//

#include "communicators/Collective.h"

namespace heddle::runtime {

Status Collective::run(Communicator &communicator) const {
  switch (kind) {
  case Kind::AllReduce:
    return communicator.allReduce(group, reduction, type, in, out, count);
  case Kind::AllGather:
    return communicator.allGather(group, type, in, out, outer, local, total,
                                  inner);
  case Kind::ReduceScatter:
    return communicator.reduceScatter(group, reduction, type, in, out, outer,
                                      local, total, inner);
  case Kind::AllToAll:
    return communicator.allToAll(group, type, in, out, allToAll);
  case Kind::Broadcast:
    return communicator.broadcast(group, peer, type, in, out, count);
  case Kind::Permute:
    return communicator.permute(group, sources, type, in, out, count);
  case Kind::Send:
    return communicator.send(group, peer, type, in, count);
  case Kind::Recv:
    return communicator.recv(group, peer, type, out, count);
  }
  return Status::error("the kind of a collective is unknown");
}

const char *name(Collective::Kind kind) {
  switch (kind) {
  case Collective::Kind::AllReduce:
    return "all_reduce";
  case Collective::Kind::AllGather:
    return "all_gather";
  case Collective::Kind::ReduceScatter:
    return "reduce_scatter";
  case Collective::Kind::AllToAll:
    return "all_to_all";
  case Collective::Kind::Broadcast:
    return "broadcast";
  case Collective::Kind::Permute:
    return "permute";
  case Collective::Kind::Send:
    return "send";
  case Collective::Kind::Recv:
    return "recv";
  }
  return "unknown";
}

} // namespace heddle::runtime
