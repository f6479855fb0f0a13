//===- NoGloo.cpp - A build of the runtime without Gloo -------------------===//

#include "processes/GlooTransport.h"

namespace heddle::runtime {

Status checkGloo() {
  return error("this build has no Gloo, over which processes communicate: "
               "install libgloo-dev (tools/setup does), configure and build "
               "again; or run all ranks in one process");
}

Expected<std::unique_ptr<Transport>> makeGlooTransport(Control &) {
  return checkGloo();
}

} // namespace heddle::runtime
