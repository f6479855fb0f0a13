//===- GlooTransport.h - Messages between processes over Gloo ---*- C++ -*-===//

#ifndef HEDDLE_RT_PROCESSES_GLOOTRANSPORT_H
#define HEDDLE_RT_PROCESSES_GLOOTRANSPORT_H

#include "communicators/Transport.h"
#include "processes/Control.h"

#include <memory>

namespace heddle::runtime {

/// Returns an error if this build of the runtime has no Gloo.
Status checkGloo();

/// Connects each process to every other one. `control` publishes the addresses
/// and must outlive the transport.
Expected<std::unique_ptr<Transport>> makeGlooTransport(Control &control);

} // namespace heddle::runtime

#endif // HEDDLE_RT_PROCESSES_GLOOTRANSPORT_H
