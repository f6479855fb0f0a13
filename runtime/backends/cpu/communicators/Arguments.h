//===- Arguments.h - Checks of the arguments of collectives -----*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_ARGUMENTS_H
#define HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_ARGUMENTS_H

#include "backends/cpu/communicators/Reduce.h"
#include "support/Message.h"

#include <string_view>

namespace heddle::runtime {

inline Status checkReducible(DType type) {
  return isReducible(type)
             ? Status::success()
             : errorOf("elements of type ", name(type), " cannot be reduced");
}

inline Status checkSeparate(std::string_view operation, const void *in,
                            const void *out) {
  return in != out ? Status::success()
                   : errorOf(operation, ": expected different buffers for "
                                        "input and output");
}

inline Status checkRoot(int32_t members, int32_t root) {
  return root >= 0 && root < members
             ? Status::success()
             : errorOf("broadcast: expected a root below ", members, ", got ",
                       root);
}

inline Status checkSource(int32_t members, int32_t source) {
  return source >= -1 && source < members
             ? Status::success()
             : errorOf("permute: expected sources below ", members, ", got ",
                       source);
}

inline Status checkPeer(int32_t members, int32_t self, int32_t peer) {
  return peer >= 0 && peer < members && peer != self
             ? Status::success()
             : errorOf("expected another member of a group of ", members,
                       " as peer, got ", peer);
}

/// Checks the index of a group, and that the rank is a member of it.
inline Status checkGroup(int32_t group, size_t groups, bool isMember) {
  if (group < 0 || size_t(group) >= groups)
    return errorOf("group ", group, " does not exist: the artifact has ",
                   groups);
  return isMember ? Status::success()
                  : errorOf("group ", group, " has this rank as no member");
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_COMMUNICATORS_ARGUMENTS_H
