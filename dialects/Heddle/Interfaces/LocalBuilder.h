//===- LocalBuilder.h - Arithmetic of local tensors -------------*- C++ -*-===//
//
// Arithmetic on indices and on floating-point tensors at one location, shared
// by the localizations of several ops.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_HEDDLE_INTERFACES_LOCALBUILDER_H
#define HEDDLE_DIALECTS_HEDDLE_INTERFACES_LOCALBUILDER_H

#include "dialects/Heddle/Heddle.h"
#include "heddle/Support/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {

/// The dimension of the sequence in the tensors of an attention.
inline constexpr int64_t kSequenceDim = 1;

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

inline mlir::RankedTensorType withElement(mlir::RankedTensorType type,
                                          mlir::Type element) {
  return mlir::RankedTensorType::get(type.getShape(), element);
}

/// Builds ops at one location.
struct LocalBuilder {
  mlir::OpBuilder &b;
  mlir::Location loc;

  template <typename Op, typename... Args>
  mlir::Value make(Args &&...args) const {
    return b.create<Op>(loc, std::forward<Args>(args)...);
  }
  mlir::Value index(int64_t value) const {
    return make<mlir::arith::ConstantIndexOp>(value);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) const {
    return make<mlir::arith::AddIOp>(x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) const {
    return make<mlir::arith::SubIOp>(x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) const {
    return make<mlir::arith::MulIOp>(x, y);
  }
  mlir::Value mod(mlir::Value x, mlir::Value y) const {
    return make<mlir::arith::RemUIOp>(x, y);
  }
  mlir::Value div(mlir::Value x, mlir::Value y) const {
    return make<mlir::arith::DivUIOp>(x, y);
  }

  mlir::Value splat(mlir::RankedTensorType type, double value) const {
    llvm::APFloat number(value);
    bool lossy;
    number.convert(
        cast<mlir::FloatType>(type.getElementType()).getFloatSemantics(),
        llvm::APFloat::rmNearestTiesToEven, &lossy);
    return make<mlir::arith::ConstantOp>(
        mlir::DenseElementsAttr::get(type, number));
  }
  mlir::Value widen(mlir::Value value) const {
    mlir::RankedTensorType type = typeOf(value);
    if (type.getElementTypeBitWidth() >= 32)
      return value;
    return make<mlir::arith::ExtFOp>(withElement(type, b.getF32Type()), value);
  }
  mlir::Value narrow(mlir::Value value, mlir::Type type) const {
    return value.getType() == type ? value
                                   : make<mlir::arith::TruncFOp>(type, value);
  }
  /// Repeats `rows`, one number for each row of `type`, along the last
  /// dimension of `type`.
  mlir::Value alongLast(mlir::Value rows, mlir::RankedTensorType type) const {
    llvm::SmallVector<int64_t> dims;
    for (int64_t i = 0; i + 1 < type.getRank(); ++i)
      dims.push_back(i);
    return make<heddle::BroadcastOp>(
        withElement(type, typeOf(rows).getElementType()), rows,
        b.getDenseI64ArrayAttr(dims), mlir::StringAttr());
  }
  /// Returns the `size` positions of the sequence that start at `begin`.
  mlir::Value slice(mlir::Value value, int64_t begin, int64_t size) const {
    return extractRows(b, loc, value, kSequenceDim, b.getIndexAttr(begin),
                       size);
  }
  /// Concatenates the two tensors along the sequence.
  mlir::Value concatenate(mlir::Value first, mlir::Value second) const {
    mlir::RankedTensorType type = typeOf(first);
    llvm::SmallVector<int64_t> shape(type.getShape());
    shape[kSequenceDim] += typeOf(second).getDimSize(kSequenceDim);
    mlir::Value whole = make<mlir::arith::ConstantOp>(b.getZeroAttr(
        mlir::RankedTensorType::get(shape, type.getElementType())));
    int64_t begin = 0;
    for (mlir::Value part : {first, second}) {
      whole =
          insertRows(b, loc, part, whole, kSequenceDim, b.getIndexAttr(begin));
      begin += typeOf(part).getDimSize(kSequenceDim);
    }
    return whole;
  }
  mlir::Value mulf(mlir::Value x, mlir::Value y) const {
    return make<mlir::arith::MulFOp>(x, y);
  }
  mlir::Value addf(mlir::Value x, mlir::Value y) const {
    return make<mlir::arith::AddFOp>(x, y);
  }
  mlir::Value subf(mlir::Value x, mlir::Value y) const {
    return make<mlir::arith::SubFOp>(x, y);
  }
  /// Returns the sum of `x` over the dimensions `over`.
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> over) const {
    llvm::SmallVector<int64_t> shape;
    for (auto [i, size] : llvm::enumerate(typeOf(x).getShape()))
      if (!llvm::is_contained(over, int64_t(i)))
        shape.push_back(size);
    return make<ReduceOp>(
        mlir::RankedTensorType::get(shape, typeOf(x).getElementType()),
        ReductionKindAttr::get(b.getContext(), ReductionKind::Sum), x,
        b.getDenseI64ArrayAttr(over), mlir::StringAttr());
  }
};

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_INTERFACES_LOCALBUILDER_H
