//===- GlooTransport.h - Messages between processes over Gloo ---*- C++ -*-===//

#ifndef HEDDLE_RT_PROCESSES_GLOOTRANSPORT_H
#define HEDDLE_RT_PROCESSES_GLOOTRANSPORT_H

#include "communicators/Transport.h"
#include "processes/Control.h"
#include "support/OpenPart.h"

#include <memory>

namespace heddle::runtime {

/// Returns an error if libheddle_gloo.so cannot be opened. It is a library of
/// its own, so a single process needs no Gloo.
Status checkGloo();

/// Connects each process to every other one. `control` publishes the addresses
/// and must outlive the transport.
Expected<std::unique_ptr<Transport>> makeGlooTransport(Control &control);

/// The table of libheddle_gloo.so, its symbol `heddle_gloo_table`. A change of
/// this struct, or of a class that the library shares with libheddle_rt, needs
/// a new version.
struct GlooTable : PartVersion {
  static constexpr uint32_t current = 1;
  Expected<std::unique_ptr<Transport>> (*makeTransport)(Control &control);
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_PROCESSES_GLOOTRANSPORT_H
