//===- ScalarBodies.cpp - Facts about upstream's scalar ops ---------------===//

#include "dialects/Interfaces/ScalarBodies.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

/// Whether the value is a constant without a zero among its integers.
static bool isNonZero(Value value) {
  DenseIntElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)))
    return llvm::none_of(elements.getValues<APInt>(),
                         [](const APInt &element) { return element.isZero(); });
  return matchPattern(value, m_NonZero());
}

/// Whether the value is a constant in [0, size).
static bool isWithin(Value value, int64_t size) {
  APInt number;
  return matchPattern(value, m_ConstantInt(&number)) &&
         number.ult(ShapedType::isDynamic(size) ? 0 : size);
}

SmallVector<Trap> heddle::findTraps(Operation *root) {
  SmallVector<Trap> traps;
  auto add = [&](OpOperand &operand, int64_t harmless) {
    if (!matchPattern(operand.get(), m_Constant()))
      traps.push_back({&operand, harmless});
  };
  root->walk([&](Operation *op) {
    if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
            arith::CeilDivSIOp, arith::CeilDivUIOp, arith::FloorDivSIOp>(op) &&
        !isNonZero(op->getOperand(1)))
      traps.push_back({&op->getOpOperand(1), 1});
    if (auto extract = dyn_cast<tensor::ExtractOp>(op))
      for (auto [index, size] :
           llvm::zip(extract.getIndicesMutable(),
                     extract.getTensor().getType().getShape()))
        if (!isWithin(index.get(), size))
          traps.push_back({&index, 0});
    if (auto gather = dyn_cast<tensor::GatherOp>(op))
      add(gather.getIndicesMutable(), 0);
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
      for (OpOperand &offset : slice.getOffsetsMutable())
        add(offset, 0);
    if (auto slice = dyn_cast<tensor::InsertSliceOp>(op))
      for (OpOperand &offset : slice.getOffsetsMutable())
        add(offset, 0);
  });
  return traps;
}

TypedAttr heddle::getHarmless(const Trap &trap) {
  Type type = trap.operand->get().getType();
  Builder builder(type.getContext());
  auto element =
      builder.getIntegerAttr(getElementTypeOrSelf(type), trap.harmless);
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return DenseElementsAttr::get(tensor, ArrayRef<Attribute>(element));
  return element;
}

TypedAttr heddle::getNeutral(Operation *combiner) {
  Type type = combiner->getResult(0).getType();
  // Upstream's function does not know these ops. maxnumf and minnumf ignore
  // NaN, so NaN is their neutral element.
  if (isa<arith::MaxNumFOp, arith::MinNumFOp>(combiner)) {
    auto number = cast<FloatType>(type);
    return FloatAttr::get(number, APFloat::getNaN(number.getFloatSemantics()));
  }
  if (isa<arith::SubFOp, arith::SubIOp, arith::XOrIOp>(combiner))
    return Builder(type.getContext()).getZeroAttr(type);
  if (!isa<arith::AddFOp, arith::AddIOp, arith::MulFOp, arith::MulIOp,
           arith::MaximumFOp, arith::MinimumFOp, arith::MaxSIOp, arith::MinSIOp,
           arith::MaxUIOp, arith::MinUIOp, arith::AndIOp, arith::OrIOp>(
          combiner))
    return {};
  return arith::getNeutralElement(combiner).value_or(TypedAttr());
}
