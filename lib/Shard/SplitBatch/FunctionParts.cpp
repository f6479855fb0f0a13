//===- FunctionParts.cpp - Writes a function part by part -----------------===//

#include "FunctionParts.h"
#include "../Explain/ShardingExplainer.h"
#include "heddle/Sharding/Pins.h"
#include "heddle/Support/Rows.h"
#include "heddle/Support/Zeros.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// Returns whether the value's only user adds each part of its own sum to a
/// part of the value. Then the value is never added up. Example: the gradient
/// of a tied table is the product of the head, to which the embedding adds its
/// own. Each part of the embedding starts from the product of the same part.
bool FunctionParts::staysInParts(OpOperand &use) {
  auto result = dyn_cast<OpResult>(use.get());
  Operation *user = use.getOwner();
  const BatchFactor *factor = factors.lookup(user);
  const BatchFactor *maker =
      result ? factors.lookup(result.getOwner()) : nullptr;
  if (!factor || !maker || !segment.contains(result.getOwner()) ||
      !result.hasOneUse() || getPinOf(result))
    return false;
  auto type = cast<RankedTensorType>(result.getType());
  return maker->get().kind == FactorKind::Sum &&
         !maker->findResultDim(result.getResultNumber()) &&
         getSumType(result.getOwner(), type) == type &&
         isAccumulator(factor->rule, factor->factor, use.getOperandNumber());
}

/// Returns whether each part of the user needs the same part of the operand,
/// which an op of the segment makes.
bool FunctionParts::takesPart(OpOperand &use, const BatchFactor &factor) {
  auto result = cast<OpResult>(use.get());
  const BatchFactor *maker = factors.lookup(result.getOwner());
  if (!maker)
    return false;
  std::optional<int64_t> dim = factor.findOperandDim(use.getOperandNumber());
  return (dim && dim == maker->findResultDim(result.getResultNumber())) ||
         staysInParts(use);
}

static StringAttr getVariable(Operation *access) {
  if (auto load = dyn_cast<LoadOp>(access))
    return load.getVariableAttr().getAttr();
  if (auto store = dyn_cast<StoreOp>(access))
    return store.getVariableAttr().getAttr();
  return nullptr;
}

/// Returns whether the op must stay behind a waiting op that accesses the same
/// memory.
bool FunctionParts::waitsForMemory(Operation *op) {
  StringAttr variable = getVariable(op);
  if (!accesses.isAny || (!variable && isMemoryEffectFree(op)))
    return false;
  if (!variable || accesses.isUnknown)
    return true;
  return accesses.stores.contains(variable) ||
         (isa<StoreOp>(op) && accesses.loads.contains(variable));
}

/// Returns whether the op needs data that is complete only after the last part
/// of the segment.
bool FunctionParts::waits(Operation *op) {
  const BatchFactor *factor = factors.lookup(op);
  bool found = !factor && waitsForMemory(op);
  op->walk([&](Operation *inner) {
    for (OpOperand &use : inner->getOpOperands()) {
      Operation *maker = use.get().getDefiningOp();
      if (!maker || !segment.contains(maker) ||
          !(factors.lookup(maker) || waiting.contains(maker)))
        continue;
      found |= !(factor && inner == op && takesPart(use, *factor));
    }
  });
  return found;
}

void FunctionParts::addToSegment(Operation *op, bool waits) {
  segment.insert(op);
  if (!waits)
    return;
  waiting.insert(op);
  if (StringAttr variable = getVariable(op)) {
    accesses.isAny = true;
    (isa<LoadOp>(op) ? accesses.loads : accesses.stores).insert(variable);
  } else if (!isMemoryEffectFree(op)) {
    accesses.isAny = accesses.isUnknown = true;
  }
}

LogicalResult FunctionParts::writeSegment() {
  size_t end = segment.size(); // of the ops that stand with the parts
  while (end > 0 && !factors.lookup(segment[end - 1]))
    --end;
  for (int64_t part = 0; part < batch.getNumParts(); ++part)
    for (Operation *op : segment.getArrayRef().take_front(end)) {
      if (const BatchFactor *factor = factors.lookup(op)) {
        if (failed(writePart(op, *factor, part)))
          return failure();
      } else if (part == 0 && !waiting.contains(op)) {
        writeSingle(op);
      }
    }
  for (auto [i, op] : llvm::enumerate(segment))
    if (!factors.lookup(op) && (i >= end || waiting.contains(op)))
      writeSingle(op);
  segment.clear();
  waiting.clear();
  accesses = {};
  return success();
}

LogicalResult FunctionParts::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (Operation *op : ops) {
    bool isLate = waits(op);
    if (isLate && factors.lookup(op)) {
      if (failed(writeSegment()))
        return failure();
      isLate = false;
    }
    addToSegment(op, isLate);
  }
  if (failed(writeSegment()))
    return failure();
  makeWhole(terminator, terminator);
  for (Operation *op : llvm::reverse(ops))
    if (factors.lookup(op) || (isFreeTensor(op) && op->use_empty()))
      op->erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Gives `inner`, which is `user` or stands in its regions, the whole forms of
/// its operands.
void FunctionParts::makeWhole(Operation *user, Operation *inner) {
  builder.setInsertionPoint(user);
  for (OpOperand &use : inner->getOpOperands())
    if (made.contains(use.get()))
      use.set(getWhole(use.get(), user));
}

/// Moves a single op to the end of what is written.
void FunctionParts::writeSingle(Operation *op) {
  op->moveBefore(terminator);
  op->walk([&](Operation *inner) { makeWhole(op, inner); });
}

void FunctionParts::recordPart(OpResult result, const BatchFactor &factor,
                               Value value, int64_t part) {
  Made &forms = made[result];
  forms.dim = factor.findResultDim(result.getResultNumber());
  bool isKept = result.hasOneUse() && staysInParts(*result.getUses().begin()) &&
                segment.contains(*result.getUsers().begin());
  if (forms.dim || isKept) {
    if (forms.dim)
      movePin(result, value);
    forms.parts.push_back(value);
    return;
  }
  forms.whole = part == 0 ? value
                          : combineSlices(builder, value.getLoc(), forms.whole,
                                          value, factor.get().kind);
  if (part + 1 < batch.getNumParts())
    return;
  if (forms.whole.getType() != result.getType())
    forms.whole = builder.create<arith::TruncFOp>(
        value.getLoc(), result.getType(), forms.whole);
  movePin(result, forms.whole);
}

LogicalResult FunctionParts::writePart(Operation *op, const BatchFactor &factor,
                                       int64_t part) {
  builder.setInsertionPoint(terminator);
  SmallVector<Value> operands;
  for (OpOperand &use : op->getOpOperands()) {
    unsigned i = use.getOperandNumber();
    if (std::optional<int64_t> dim = factor.findOperandDim(i))
      operands.push_back(getPart(use.get(), *dim, part, op));
    else if (isAccumulator(factor.rule, factor.factor, i))
      operands.push_back(getStart(use, part));
    else
      operands.push_back(getWhole(use.get(), op));
  }
  Operation *before = terminator->getPrevNode();
  FailureOr<SliceResults> results =
      runOnSlice(builder, op, operands, getPartTypes(op, factor, batch, part),
                 {factor.factor, part,
                  batch.getRows(factor.get().size) * batch.getOffset(part)});
  if (failed(results))
    return failure();
  // Values that the op's regions read from outside are needed whole.
  SmallVector<Operation *> written;
  for (Operation *next = terminator->getPrevNode(); next != before;
       next = next->getPrevNode())
    if (next->getNumRegions() != 0)
      written.push_back(next);
  for (Operation *local : written)
    local->walk([&](Operation *inner) { makeWhole(local, inner); });
  builder.setInsertionPoint(terminator);
  for (auto [result, value] : llvm::zip(op->getResults(), results->values))
    recordPart(result, factor, value, part);
  return success();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value FunctionParts::cutPart(Value value, int64_t dim, int64_t part,
                             Operation *user) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t rows = batch.getRows(type.getDimSize(dim));
  Operation *maker = value.getDefiningOp();
  if (maker && isFreeTensor(maker)) {
    SmallVector<Value> operands;
    for (Value operand : maker->getOperands())
      operands.push_back(getWhole(operand, maker));
    if (Value free = makeFreeSlice(builder, maker, operands,
                                   batch.getPartType(type, dim, part), dim,
                                   part, rows * batch.getOffset(part)))
      return free;
  }
  return extractRows(builder, value.getLoc(), getWhole(value, user), dim,
                     builder.getIndexAttr(rows * batch.getOffset(part)),
                     rows * batch.getSize(part));
}

Value FunctionParts::getPart(Value value, int64_t dim, int64_t part,
                             Operation *user) {
  if (auto known = made.find(value);
      known != made.end() && known->second.dim == dim)
    return known->second.parts[part];
  SmallVector<Value> &parts = cuts[{value, dim}];
  parts.resize(batch.getNumParts());
  if (!parts[part])
    parts[part] = cutPart(value, dim, part, user);
  return parts[part];
}

/// Returns the value from which one part of an accumulating op starts: the same
/// part of the accumulator if it stays in parts. Otherwise the first part
/// starts from the accumulator, and all others from zero.
Value FunctionParts::getStart(OpOperand &use, int64_t part) {
  if (auto known = made.find(use.get());
      known != made.end() && !known->second.whole && !known->second.dim)
    return known->second.parts[part];
  Value whole = getWhole(use.get(), use.getOwner());
  if (part == 0 || isZeros(whole))
    return whole;
  return builder.create<arith::ConstantOp>(
      whole.getLoc(), cast<TypedAttr>(builder.getZeroAttr(whole.getType())));
}

Value FunctionParts::getWhole(Value value, Operation *user) {
  auto known = made.find(value);
  if (known == made.end())
    return value;
  Made &forms = known->second;
  if (!forms.whole) {
    forms.whole = builder.create<tensor::ConcatOp>(
        value.getLoc(), value.getType(), *forms.dim, forms.parts);
    if (user != terminator)
      joins.insert({user, {user->getLoc(), describeOp(user)}});
  }
  return forms.whole;
}
