//===- Message.h - Builds the text of an error ------------------*- C++ -*-===//

#ifndef HEDDLE_RT_SUPPORT_MESSAGE_H
#define HEDDLE_RT_SUPPORT_MESSAGE_H

#include "heddle_rt/status.h"

#include <sstream>
#include <string>

namespace heddle::runtime {

/// The parts one after another, as `<<` prints them.
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
