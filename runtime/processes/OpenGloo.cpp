//===- OpenGloo.cpp - Opens the library that calls Gloo -------------------===//

#include "processes/GlooTransport.h"

namespace heddle::runtime {

static Expected<const PartVersion *> openGloo() {
  return openPart(
      {"libheddle_gloo.so", "heddle_gloo_table", GlooTable::current,
       "carries messages between processes",
       "build Heddle where libgloo-dev is installed (tools/setup does that), "
       "or take a package with Gloo (tools/package without --without-onednn), "
       "or run all ranks in one process"});
}

Status checkGloo() { return openGloo().status(); }

Expected<std::unique_ptr<Transport>> makeGlooTransport(Control &control) {
  Expected<const PartVersion *> part = openGloo();
  HEDDLE_RT_RETURN_IF_ERROR(part.status());
  return static_cast<const GlooTable *>(*part)->makeTransport(control);
}

} // namespace heddle::runtime
