//===- CheckedCommunicator.cpp - Checks of collectives' arguments ---------===//

#include "communicators/CheckedCommunicator.h"
#include "support/Message.h"

namespace heddle::runtime {

using Kind = Collective::Kind;

static bool isReducible(DType type) {
  return type == HEDDLE_RT_F32 || type == HEDDLE_RT_BF16 ||
         type == HEDDLE_RT_F16 || type == HEDDLE_RT_F64 ||
         type == HEDDLE_RT_I8 || type == HEDDLE_RT_I32 || type == HEDDLE_RT_I64;
}

int32_t CheckedCommunicator::groupSize(int32_t group) const {
  bool isMember = group >= 0 && size_t(group) < views.size() &&
                  views[size_t(group)].member >= 0;
  return isMember ? int32_t(views[size_t(group)].ranks.size()) : 0;
}

Status CheckedCommunicator::check(const Collective &call) const {
  if (call.group < 0 || size_t(call.group) >= views.size())
    return errorOf("group ", call.group, " does not exist: the artifact has ",
                   views.size());
  int32_t members = groupSize(call.group);
  if (members == 0)
    return errorOf("group ", call.group, " has this rank as no member");
  int32_t self = viewOf(call).member;
  bool isSeparate = false;
  switch (call.kind) {
  case Kind::ReduceScatter:
    isSeparate = true;
    [[fallthrough]];
  case Kind::AllReduce:
    if (!isReducible(call.type))
      return errorOf("elements of type ", name(call.type),
                     " cannot be reduced");
    break;
  case Kind::AllGather:
  case Kind::AllToAll:
  case Kind::Permute:
    isSeparate = true;
    break;
  case Kind::Broadcast:
    if (call.peer < 0 || call.peer >= members)
      return errorOf("broadcast: expected a root below ", members, ", got ",
                     call.peer);
    break;
  case Kind::Send:
  case Kind::Recv:
    if (call.peer < 0 || call.peer >= members || call.peer == self)
      return errorOf("expected another member of a group of ", members,
                     " as peer, got ", call.peer);
    break;
  }
  if (isSeparate && call.in == call.out)
    return errorOf(name(call.kind), ": expected different buffers for input "
                                    "and output");
  if (call.kind == Kind::Permute)
    if (int32_t source = call.sources[self]; source < -1 || source >= members)
      return errorOf("permute: expected sources below ", members, ", got ",
                     source);
  return Status::success();
}

Status CheckedCommunicator::perform(const Collective &call) {
  HEDDLE_RT_RETURN_IF_ERROR(check(call));
  return run(call);
}

} // namespace heddle::runtime
