//===- Errors.h - Messages of communicators ---------------------*- C++ -*-===//

#ifndef HEDDLE_RT_COMMUNICATORS_ERRORS_H
#define HEDDLE_RT_COMMUNICATORS_ERRORS_H

#include "communicators/Communicator.h"
#include "support/Message.h"

#include <chrono>
#include <string>
#include <string_view>

namespace heddle::runtime {

/// A call of a collective by one member.
struct MemberCall {
  int32_t rank;
  std::string_view operation;
  int64_t type, count, detail;

  std::string describe() const {
    return concat("device ", rank, " calls ", operation, " of ", count, " ",
                  name(DType(type)));
  }
};

/// The error of a collective to which `ranks` ("1, 3") have not come in time.
inline Status didNotArrive(std::string_view ranks, std::string_view operation,
                           std::chrono::milliseconds timeout) {
  return errorOf("device ", ranks, " did not arrive at ", operation, " within ",
                 double(timeout.count()) / 1000,
                 " s: it is hung or dead, or runs another program");
}

/// Returns an error unless both calls are the same.
inline Status checkAgreement(const MemberCall &first, const MemberCall &other) {
  if (other.operation == first.operation && other.type == first.type &&
      other.count == first.count && other.detail == first.detail)
    return Status::success();
  return errorOf("devices disagree on a collective: ", first.describe(), ", ",
                 other.describe(),
                 other.detail == first.detail ? "" : " in another shape");
}

inline Status didNotSend(int32_t sender, int32_t receiver,
                         std::chrono::milliseconds timeout) {
  return errorOf("device ", sender, " did not send to device ", receiver,
                 " within ", double(timeout.count()) / 1000, " s");
}

/// Returns an error unless a message is what the receiver expects.
inline Status checkMessage(int32_t receiver, DType expectedType,
                           int64_t expectedCount, int32_t sender, DType type,
                           int64_t count) {
  if (type == expectedType && count == expectedCount)
    return Status::success();
  return errorOf("device ", receiver, " expects ", expectedCount, " ",
                 name(expectedType), " from device ", sender, ", which sends ",
                 count, " ", name(type));
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_ERRORS_H
