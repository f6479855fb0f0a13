//===- WriteOut.cpp - Blocks written out where they run -------------------===//

#include "WriteOut.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Matchers.h"
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

/// Returns the number of a constant scalar or of a constant tensor of one
/// element.
static Attribute getNumber(Value value) {
  Attribute constant;
  if (!matchPattern(value, m_Constant(&constant)))
    return {};
  if (auto elements = dyn_cast<SplatElementsAttr>(constant))
    return elements.getSplatValue<Attribute>();
  return constant;
}

/// Computes a structured op on numbers (tensors without dimensions) if all
/// numbers that it reads are constant. Front ends compute the index of a slice
/// by such ops. Returns the constant, or null.
static DenseElementsAttr computeOnNumbers(Operation *op) {
  auto structured = dyn_cast<linalg::LinalgOp>(op);
  if (!structured || structured.getNumLoops() != 0 ||
      op->getNumResults() != 1 || !structured.hasPureTensorSemantics() ||
      !isMemoryEffectFree(op))
    return {};
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (type.getRank() != 0 || !type.getElementType().isIntOrIndex())
    return {};
  DenseMap<Value, Attribute> known;
  Block &body = *structured.getBlock();
  for (auto [argument, operand] :
       llvm::zip(body.getArguments(), op->getOperands()))
    known[argument] = getNumber(operand);
  auto lookUp = [&](Value value) -> Attribute {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    Attribute constant;
    return matchPattern(value, m_Constant(&constant)) ? constant : Attribute();
  };
  for (Operation &inner : body.without_terminator()) {
    SmallVector<Attribute> operands = llvm::map_to_vector(
        inner.getOperands(), [&](Value value) { return lookUp(value); });
    SmallVector<OpFoldResult> results;
    if (inner.getNumRegions() != 0 || failed(inner.fold(operands, results)))
      continue;
    for (auto [result, value] : llvm::zip(inner.getResults(), results))
      known[result] = isa<Attribute>(value) ? cast<Attribute>(value)
                                            : lookUp(cast<Value>(value));
  }
  auto result = dyn_cast_if_present<IntegerAttr>(
      lookUp(body.getTerminator()->getOperand(0)));
  return result ? DenseElementsAttr::get(type, Attribute(result))
                : DenseElementsAttr();
}

FailureOr<SmallVector<Value>>
lower::BlockWriter::write(Block &block, IRMapping &mapping, Operation *at) {
  OpBuilder builder(at);
  for (Operation &op : block.without_terminator()) {
    if (failed(count(at)))
      return failure();
    Operation *copy = builder.clone(op, mapping);
    if (DenseElementsAttr number = computeOnNumbers(copy)) {
      mapping.map(op.getResult(0),
                  builder.create<arith::ConstantOp>(op.getLoc(), number));
      copy->erase();
      continue;
    }
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
