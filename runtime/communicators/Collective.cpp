//===- Collective.cpp - A collective or transfer as data ------------------===//

#include "communicators/Collective.h"

namespace heddle::runtime {

int64_t Collective::bytesIn(int64_t members) const {
  auto bytes = count * int64_t(byteSize(type));
  switch (kind) {
  case Kind::AllReduce:
  case Kind::AllGather:
  case Kind::Broadcast:
  case Kind::Permute:
  case Kind::Send:
    return bytes;
  case Kind::ReduceScatter:
  case Kind::AllToAll:
    return members * bytes;
  case Kind::Recv:
    return 0;
  }
  return 0;
}

int64_t Collective::bytesOut(int64_t members) const {
  auto bytes = count * int64_t(byteSize(type));
  switch (kind) {
  case Kind::AllReduce:
  case Kind::ReduceScatter:
  case Kind::Broadcast:
  case Kind::Permute:
  case Kind::Recv:
    return bytes;
  case Kind::AllGather:
  case Kind::AllToAll:
    return members * bytes;
  case Kind::Send:
    return 0;
  }
  return 0;
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
