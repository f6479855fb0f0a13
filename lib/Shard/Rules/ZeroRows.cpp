//===- ZeroRows.cpp - Zeros beside the rows of a tensor -------------------===//

#include "ZeroRows.h"
#include "heddle/Support/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

Value heddle::makeZeros(OpBuilder &builder, Location loc,
                        RankedTensorType type) {
  TypedAttr zeros = builder.getZeroAttr(type);
  if (auto complex = dyn_cast<ComplexType>(type.getElementType())) {
    unsigned width = complex.getElementType().getIntOrFloatBitWidth();
    SmallVector<char> number(2 * llvm::divideCeil(width, 8), 0);
    zeros = DenseElementsAttr::getFromRawBuffer(type, number);
  }
  return builder.create<arith::ConstantOp>(loc, zeros);
}

Value heddle::padRows(OpBuilder &builder, Location loc, Value value,
                      int64_t dim, int64_t size) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getDimSize(dim) == size)
    return value;
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  Value zeros = makeZeros(builder, loc, type.clone(shape));
  return insertRows(builder, loc, value, zeros, dim, builder.getIndexAttr(0));
}
