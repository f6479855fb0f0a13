//===- WriteOut.cpp - Blocks written out where they run -------------------===//

#include "WriteOut.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

FailureOr<SmallVector<func::FuncOp>> lower::getPrograms(ModuleOp module) {
  SmallVector<func::FuncOp> programs;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || function->hasAttr(kKernelAttrName))
      continue;
    if (!llvm::hasSingleElement(function.getBody()))
      return function.emitOpError() << "expected one block, got "
                                    << function.getBody().getBlocks().size();
    programs.push_back(function);
  }
  return programs;
}

LogicalResult lower::BlockWriter::count(Operation *at) {
  if (++ops <= maxOps)
    return success();
  return at->emitOpError()
         << "cannot be compiled: written out, the function's calls and loops "
            "are more than "
         << maxOps << " ops; raise max-ops of " << pass;
}

FailureOr<SmallVector<Value>>
lower::BlockWriter::write(Block &block, IRMapping &mapping, Operation *at) {
  OpBuilder builder(at);
  for (Operation &op : block.without_terminator()) {
    if (failed(count(at)))
      return failure();
    Operation *copy = builder.clone(op, mapping);
    SmallVector<Value> folded;
    // An op that was folded in place has no new values, and stays.
    if (succeeded(builder.tryFold(copy, folded)) && !folded.empty()) {
      for (auto [result, value] : llvm::zip(op.getResults(), folded))
        mapping.map(result, value);
      if (isOpTriviallyDead(copy))
        copy->erase();
    }
  }
  SmallVector<Value> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(mapping.lookupOrDefault(value));
  return results;
}
