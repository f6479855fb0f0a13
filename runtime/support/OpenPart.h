//===- OpenPart.h - Parts of the runtime that load on demand ----*- C++ -*-===//
//
// A part is a library of its own, such as libheddle_onednn.so. libheddle_rt
// opens it when it is needed, so a machine that never needs the part can do
// without it and without the libraries that the part links. A part links
// libheddle_rt and is built with it. It shows one object: a table of functions.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SUPPORT_OPENPART_H
#define HEDDLE_RT_SUPPORT_OPENPART_H

#include "heddle_rt/status.h"

#include <cstdint>

namespace heddle::runtime {

/// The first field of every table.
struct PartVersion {
  uint32_t version;
};

/// How a part is found, and what an error about it says.
struct Part {
  const char *file;    ///< the name of the library's file
  const char *table;   ///< the symbol of its table
  uint32_t version;    ///< of the table
  const char *purpose; ///< completes "FILE, which ..."
  const char *remedy;  ///< what to do if there is no such library
};

/// Opens a part and returns its table. Looks in the folder of libheddle_rt.so,
/// then where the system's loader looks. The part stays loaded until the
/// process ends. The error names the library, all places, and the remedy.
Expected<const PartVersion *> openPart(const Part &part);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SUPPORT_OPENPART_H
