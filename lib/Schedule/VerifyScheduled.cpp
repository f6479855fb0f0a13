//===- VerifyScheduled.cpp - heddle-verify-scheduled ----------------------===//

#include "dialects/Comm/Comm.h"
#include "heddle/Schedule/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_VERIFYSCHEDULEDPASS
#include "heddle/Schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static LogicalResult verifyWaited(comm::StartOp start) {
  if (!start.getToken().hasOneUse() ||
      !isa<comm::WaitOp>(*start.getToken().user_begin()))
    return start.emitOpError() << "expected one comm.wait of its token, got "
                               << std::distance(start.getToken().use_begin(),
                                                start.getToken().use_end())
                               << " uses";
  Operation *wait = *start.getToken().user_begin();
  if (wait->getBlock() != start->getBlock())
    return start.emitOpError() << "expected its comm.wait in the same block";
  return success();
}

namespace {
struct VerifyScheduled
    : heddle::impl::VerifyScheduledPassBase<VerifyScheduled> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    // By mesh and axes: the first start of the group.
    llvm::DenseMap<std::pair<Attribute, Attribute>, comm::StartOp> groups;
    WalkResult walked = getOperation().walk([&](comm::StartOp start) {
      if (failed(verifyWaited(start)))
        return WalkResult::interrupt();
      Operation *collective = start.getCollective();
      auto [it, isNew] = groups.try_emplace(
          {collective->getAttr("mesh"), collective->getAttr("axes")}, start);
      if (isNew || it->second.getStream() == start.getStream())
        return WalkResult::advance();
      InFlightDiagnostic diag =
          start.emitOpError()
          << "is on stream " << start.getStream()
          << ", but another collective of its group is on stream "
          << it->second.getStream() << ": put both on one stream";
      diag.attachNote(it->second.getLoc()) << "the other one";
      return WalkResult::interrupt();
    });
    if (walked.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
