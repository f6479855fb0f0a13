//===- CheckOutput.h - Files to write, before long work ---------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_COMMON_CHECKOUTPUT_H
#define HEDDLE_TOOLS_COMMON_CHECKOUTPUT_H

#include <string>

namespace heddle::tools {

/// Returns an error text if no file can be written at `path`, which is the
/// value of `option`, or an empty text.
std::string checkOutput(const std::string &option, const std::string &path);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_CHECKOUTPUT_H
