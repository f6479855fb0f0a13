//===- Message.h - Builds the text of an error ------------------*- C++ -*-===//

#ifndef HEDDLE_RT_SUPPORT_MESSAGE_H
#define HEDDLE_RT_SUPPORT_MESSAGE_H

#include "heddle_rt/status.h"

#include <sstream>
#include <string>

namespace heddle::runtime {

/// Returns the parts as `<<` prints them, one after another.
template <typename... Parts> std::string concat(const Parts &...parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return std::move(stream).str();
}

template <typename... Parts> Status errorOf(const Parts &...parts) {
  return Status::error(concat(parts...));
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_SUPPORT_MESSAGE_H
