//===- Mebibytes.h - Sizes as people read them ------------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_COMMON_MEBIBYTES_H
#define HEDDLE_TOOLS_COMMON_MEBIBYTES_H

namespace heddle::tools {

/// The size in MiB.
inline double inMiB(double bytes) { return bytes / double(1 << 20); }

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_MEBIBYTES_H
