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

int64_t Collective::bytesIn() const {
  auto size = int64_t(byteSize(type));
  switch (kind) {
  case Kind::AllReduce:
  case Kind::Broadcast:
  case Kind::Permute:
  case Kind::Send:
    return count * size;
  case Kind::AllGather:
    return outer * local * inner * size;
  case Kind::ReduceScatter:
    return outer * total * inner * size;
  case Kind::AllToAll:
    return allToAll.outer * allToAll.splitTotal * allToAll.middle *
           allToAll.concatLocal * allToAll.inner * size;
  case Kind::Recv:
    return 0;
  }
  return 0;
}

int64_t Collective::bytesOut() const {
  auto size = int64_t(byteSize(type));
  switch (kind) {
  case Kind::AllReduce:
  case Kind::Broadcast:
  case Kind::Permute:
  case Kind::Recv:
    return count * size;
  case Kind::AllGather:
    return outer * total * inner * size;
  case Kind::ReduceScatter:
    return outer * local * inner * size;
  case Kind::AllToAll:
    return allToAll.outer * allToAll.splitLocal * allToAll.middle *
           allToAll.concatTotal * allToAll.inner * size;
  case Kind::Send:
    return 0;
  }
  return 0;
}

bool Collective::isInPlace() const {
  auto begin = reinterpret_cast<uintptr_t>(in);
  auto outBegin = reinterpret_cast<uintptr_t>(out);
  return begin < outBegin + size_t(bytesOut()) &&
         outBegin < begin + size_t(bytesIn());
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
