//===- Lookup.cpp - Ops that read elements at computed positions ----------===//
//
// Decomposes tensor.pad, tensor.gather and tensor.generate. The bodies of
// the resulting linalg ops read the source of a pad or gather by
// tensor.extract.
//
//===----------------------------------------------------------------------===//

#include "Decomposer.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

static bool decomposePad(Operation *op, OpBuilder &builder) {
  auto pad = dyn_cast<tensor::PadOp>(op);
  Attribute value;
  if (!pad || !pad.getConstantPaddingValue() ||
      !matchPattern(pad.getConstantPaddingValue(), m_Constant(&value)) ||
      !pad.getResultType().hasStaticShape() || op->getNumOperands() != 1)
    return false;
  Decomposer d(builder, op->getLoc());
  RankedTensorType type = pad.getResultType(), source = pad.getSourceType();
  pad.replaceAllUsesWith(d.map(type, {}, [&](Body &b, ValueRange) -> Value {
    SmallVector<Value> indices;
    Value isIn;
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      int64_t low = pad.getStaticLow()[dim], high = pad.getStaticHigh()[dim];
      Value index = b.index(dim);
      if (low != 0 || high != 0) {
        index =
            b.create<arith::SubIOp>(index, b.integer(b.getIndexType(), low));
        // Unsigned: a negative index is very large, so it is outside, too.
        Value inside = b.create<arith::CmpIOp>(
            arith::CmpIPredicate::ult, index,
            b.integer(b.getIndexType(), source.getDimSize(dim)));
        index = b.create<arith::SelectOp>(inside, index,
                                          b.integer(b.getIndexType(), 0));
        isIn =
            isIn ? b.create<arith::AndIOp>(isIn, inside).getResult() : inside;
      }
      indices.push_back(index);
    }
    Value element = b.create<tensor::ExtractOp>(pad.getSource(), indices);
    if (!isIn)
      return element;
    return b.create<arith::SelectOp>(
        isIn, element, b.create<arith::ConstantOp>(cast<TypedAttr>(value)));
  }));
  return true;
}

/// The result's dimensions are those of the indices except the last, and then
/// those of the source. The source's gathered dimensions may be left out.
static bool decomposeGather(Operation *op, OpBuilder &builder) {
  auto gather = dyn_cast<tensor::GatherOp>(op);
  if (!gather)
    return false;
  RankedTensorType type = gather.getResultType(),
                   source = gather.getSourceType(),
                   indices = gather.getIndicesType();
  ArrayRef<int64_t> gathered = gather.getGatherDims();
  bool keepsGathered =
      type.getRank() == indices.getRank() - 1 + source.getRank();
  Decomposer d(builder, op->getLoc());
  gather.replaceAllUsesWith(d.map(type, {}, [&](Body &b, ValueRange) -> Value {
    SmallVector<Value> place;
    for (int64_t i = 0; i < indices.getRank() - 1; ++i)
      place.push_back(b.index(i));
    int64_t next = place.size();
    place.emplace_back();
    SmallVector<Value> from(source.getRank());
    for (auto [i, dim] : llvm::enumerate(gathered)) {
      place.back() = b.integer(b.getIndexType(), i);
      from[dim] =
          b.toInteger(b.create<tensor::ExtractOp>(gather.getIndices(), place),
                      b.getIndexType());
    }
    for (Value &index : from) {
      bool isGathered = bool(index);
      if (!isGathered)
        index = b.index(next);
      next += !isGathered || keepsGathered;
    }
    return b.create<tensor::ExtractOp>(gather.getSource(), from);
  }));
  return true;
}

static bool decomposeGenerate(Operation *op, OpBuilder &builder) {
  auto generate = dyn_cast<tensor::GenerateOp>(op);
  if (!generate)
    return false;
  auto type = cast<RankedTensorType>(generate.getType());
  if (!type.hasStaticShape())
    return false;
  Decomposer d(builder, op->getLoc());
  generate.replaceAllUsesWith(
      d.map(type, {}, [&](Body &b, ValueRange) -> Value {
        IRMapping mapping;
        Block &body = generate.getBody().front();
        for (BlockArgument argument : body.getArguments())
          mapping.map(argument, b.index(argument.getArgNumber()));
        for (Operation &inner : body.without_terminator())
          b.clone(inner, mapping);
        return mapping.lookupOrDefault(body.getTerminator()->getOperand(0));
      }));
  return true;
}

bool lower::decomposeLookup(Operation *op, OpBuilder &builder) {
  return decomposePad(op, builder) || decomposeGather(op, builder) ||
         decomposeGenerate(op, builder);
}
