//===- VerifyExecutable.cpp - Checks planned programs ---------------------===//

#include "StreamOrder.h"
#include "VerifyPipeline.h"
#include "heddle/Lower/Passes.h"
#include "llvm/ADT/DenseSet.h"

namespace heddle {
#define GEN_PASS_DEF_VERIFYEXECUTABLEPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static LogicalResult verifyFunction(func::FuncOp function) {
  if (function.isExternal() || function->hasAttr(kKernelAttrName))
    return success();
  return function.emitOpError()
         << "expected an rt.program: functions are kernels in this phase";
}

//===----------------------------------------------------------------------===//
// Ports
//===----------------------------------------------------------------------===//

static LogicalResult verifyPort(rt::ProgramOp program, rt::PortAttr port,
                                StringRef kind, const SymbolTable &symbols) {
  auto emitRanks = [&] {
    return program.emitOpError()
           << "expected the ranks of " << kind << ' ' << port.getName() << ' ';
  };
  if (RanksAttr ranks = port.getRanks();
      ranks && failed(verifyRanks(program, ranks, emitRanks)))
    return failure();
  ShardingAttr sharding = port.getSharding();
  if (!sharding)
    return success();
  auto emit = [&] {
    return program.emitOpError()
           << "expected " << kind << ' ' << port.getName() << " to be ";
  };
  if (sharding.isPartial())
    return emit() << "whole, got " << sharding;
  if (sharding.getRank() != port.getType().getRank())
    return emit() << "sharded in " << port.getType().getRank()
                  << " dimensions, got " << sharding;
  auto mesh = symbols.lookup<MeshOp>(sharding.getMesh().getAttr());
  if (!mesh)
    return emit() << "over a heddle.mesh of this module, got "
                  << sharding.getMesh();
  for (AxisListAttr dim : sharding.getDims())
    for (StringAttr axis : dim.getAxes())
      if (!mesh.getMesh().getAxisSize(axis))
        return emit() << "over axes of " << mesh.getMesh() << ", got " << axis;
  return success();
}

static LogicalResult verifyPorts(rt::ProgramOp program,
                                 const SymbolTable &symbols) {
  for (auto [kind, ports] :
       {std::pair<StringRef, ArrayAttr>("argument", program.getInputs()),
        {"result", program.getOutputs()}}) {
    llvm::DenseSet<StringAttr> names;
    for (auto port : ports.getAsRange<rt::PortAttr>()) {
      if (!names.insert(port.getName()).second)
        return program.emitOpError()
               << "expected " << kind << "s of different names, got "
               << port.getName() << " twice";
      if (failed(verifyPort(program, port, kind, symbols)))
        return failure();
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

namespace {
/// Checks the ops of one program in the order in which they run.
class CallChecker {
public:
  LogicalResult check(Block &block) {
    for (Operation &op : block)
      if (failed(check(op)))
        return failure();
    return success();
  }

private:
  LogicalResult check(Operation &op) {
    for (Type type : op.getResultTypes())
      if (!type.isIntOrIndex())
        return op.emitOpError()
               << "expected numbers as the values of a program, got " << type;
    if (auto record = dyn_cast<rt::RecordOp>(op)) {
      if (!recorded.insert(record.getEvent()).second)
        return op.emitOpError() << "expected an event of its own, got "
                                << record.getEvent() << " again";
      happened.insert(record.getEvent());
    }
    if (auto wait = dyn_cast<rt::WaitOp>(op);
        wait && !happened.contains(wait.getEvent()))
      return op.emitOpError() << "expected an event that is recorded before, "
                                 "got "
                              << wait.getEvent();
    auto loop = dyn_cast<rt::WhileOp>(op);
    if (!loop)
      return success();
    // The region `before` always runs: first, and again after each run of
    // `after`. The region `after` may not run at all.
    if (failed(check(loop.getBefore().front())))
      return failure();
    llvm::DenseSet<int32_t> certain = happened;
    if (failed(check(loop.getAfter().front())))
      return failure();
    happened = std::move(certain);
    return success();
  }

  llvm::DenseSet<int32_t> recorded; ///< events recorded so far, in any region
  llvm::DenseSet<int32_t> happened; ///< events certainly recorded before the op
};

struct VerifyExecutablePass
    : heddle::impl::VerifyExecutablePassBase<VerifyExecutablePass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (Operation &op : *getOperation().getBody())
      if (failed(verify(op, symbols)))
        return signalPassFailure();
    if (failed(verifyPipeline(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  static LogicalResult verify(Operation &op, const SymbolTable &symbols) {
    if (auto function = dyn_cast<func::FuncOp>(op))
      return verifyFunction(function);
    auto program = dyn_cast<rt::ProgramOp>(op);
    if (!program)
      return success();
    return success(succeeded(verifyPorts(program, symbols)) &&
                   succeeded(CallChecker().check(program.getBody().front())) &&
                   succeeded(verifyStreamOrder(program)));
  }
};
} // namespace
