//===- InlineCalls.cpp - heddle-inline-calls ------------------------------===//

#include "WriteOut.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Lower/Passes.h"
#include "mlir/IR/Iterators.h"

namespace heddle {
#define GEN_PASS_DEF_INLINECALLSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Replaces the call by the callee's ops. Appends the calls among these ops to
/// `calls`, last one first.
static LogicalResult inlineCall(func::CallOp call,
                                SymbolTableCollection &symbols,
                                lower::BlockWriter &writer,
                                SmallVectorImpl<func::CallOp> &calls) {
  auto callee =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  if (!callee || callee.isExternal() ||
      !llvm::hasSingleElement(callee.getBody()))
    return call.emitOpError()
           << "cannot be compiled: expected a function of one block, got @"
           << call.getCallee();
  IRMapping mapping;
  mapping.map(callee.getArguments(), call.getOperands());
  Operation *before = call->getPrevNode();
  auto results = writer.write(callee.getBody().front(), mapping, call);
  if (failed(results))
    return failure();
  for (Operation *op = call->getPrevNode(); op != before;
       op = op->getPrevNode())
    op->walk<WalkOrder::PreOrder, ReverseIterator>(
        [&](func::CallOp inner) { calls.push_back(inner); });
  call->replaceAllUsesWith(*results);
  call->erase();
  return success();
}

static LogicalResult inlineCalls(func::FuncOp function,
                                 SymbolTableCollection &symbols,
                                 lower::BlockWriter writer) {
  SmallVector<func::CallOp> calls;
  function.walk<WalkOrder::PreOrder, ReverseIterator>(
      [&](func::CallOp call) { calls.push_back(call); });
  while (!calls.empty())
    if (failed(inlineCall(calls.pop_back_val(), symbols, writer, calls)))
      return failure();
  return success();
}

namespace {
struct InlineCallsPass : heddle::impl::InlineCallsPassBase<InlineCallsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTableCollection symbols;
    // The two functions of a heddle.while, made by an earlier run of
    // heddle-outline-loops, are programs.
    llvm::DenseSet<StringAttr> outlined;
    module.walk([&](WhileOp loop) {
      outlined.insert(loop.getBeforeAttr().getAttr());
      outlined.insert(loop.getAfterAttr().getAttr());
    });
    SmallVector<func::FuncOp> inlined;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isExternal() || function->hasAttr(kKernelAttrName))
        continue;
      if (function.isPrivate() && !outlined.contains(function.getSymNameAttr()))
        inlined.push_back(function);
      else if (failed(inlineCalls(function, symbols, {getArgument(), maxOps})))
        return signalPassFailure();
    }
    // A private function that nobody calls is erased too.
    for (func::FuncOp function : inlined)
      function.erase();
  }
};
} // namespace
