//===- HeddleNorms.cpp - Norms of a split hidden dimension ----------------===//
//
// The localization of norms whose dimension h is split. Each device sums over
// its own part of a row, and the sums are added over the devices. All other
// arithmetic is elementwise. A row has only a few sums, so little is sent. The
// formulas are those of the ops' descriptions. The variance is the mean squared
// difference from the mean, as in the ops' kernels.
//
//===----------------------------------------------------------------------===//

#include "LocalBuilder.h"

using namespace mlir;
using namespace heddle;

using LocalResults = FailureOr<SmallVector<Value>>;

namespace {

/// Builds the arithmetic of one norm or its gradient, in f32. The factor h is
/// the normalized dimension, of global size `size`; `type` is that of x in f32.
class Norm {
public:
  Norm(Operation *op, const ShardingRule &rule, Localizer &localizer)
      : localizer(localizer), b{localizer.builder, op->getLoc()},
        h(*rule.getFactor("h")), size(rule.factors[h].size),
        type(cast<RankedTensorType>(b.widen(localizer.operands[0]).getType())) {
  }

  Value operand(unsigned index) const {
    return b.widen(localizer.operands[index]);
  }
  /// Replaces the elements beyond the end of h by zeros.
  Value mask(Value x) const {
    if (!localizer.isPadded(h))
      return x;
    return b.make<MaskPaddingOp>(x.getType(), x,
                                 ValueRange{localizer.getOffset(h)},
                                 ArrayRef<int64_t>{type.getRank() - 1},
                                 ArrayRef<int64_t>{size}, PaddingValue::Zero);
  }
  /// The mean over all of h, for every row.
  Value mean(Value x) const {
    Value sum =
        localizer.allReduce(b.sum(x, {type.getRank() - 1}), FactorKind::Sum, h);
    return b.make<arith::DivFOp>(sum, b.splat(typeOf(sum), double(size)));
  }
  /// 1 / sqrt(x + epsilon).
  Value inverseRoot(Value x, const APFloat &epsilon) const {
    Value root = b.make<math::SqrtOp>(
        b.addf(x, b.splat(typeOf(x), epsilon.convertToDouble())));
    return b.make<arith::DivFOp>(b.splat(typeOf(x), 1), root);
  }
  /// Repeats one number for each row along h.
  Value ofRows(Value statistic) const { return b.alongLast(statistic, type); }
  /// Repeats one number for each column (index of h) along the rows.
  Value ofColumns(Value weight) const {
    return b.make<heddle::BroadcastOp>(
        type, weight, b.b.getDenseI64ArrayAttr({type.getRank() - 1}),
        StringAttr());
  }
  Value sumOverRows(Value x) const {
    SmallVector<int64_t> rows;
    for (int64_t i = 0; i + 1 < type.getRank(); ++i)
      rows.push_back(i);
    return b.sum(x, rows);
  }
  Value narrow(Value x, unsigned result) const {
    return b.narrow(x, localizer.resultTypes[result]);
  }

  Localizer &localizer;
  LocalBuilder b;
  unsigned h;
  int64_t size;
  RankedTensorType type;
};

} // namespace

LocalResults LayerNormOp::localize(Localizer &localizer) {
  Norm n(*this, getShardingRule(), localizer);
  if (!localizer.isSplit(n.h))
    return localizeByCloning(*this, localizer);
  Value x = n.mask(n.operand(0));
  Value mean = n.mean(x);
  Value centered = n.mask(n.b.subf(x, n.ofRows(mean)));
  Value rstd =
      n.inverseRoot(n.mean(n.b.mulf(centered, centered)), getEpsilon());
  Value scaled =
      n.b.mulf(n.b.mulf(centered, n.ofRows(rstd)), n.ofColumns(n.operand(1)));
  Value y = n.b.addf(scaled, n.ofColumns(n.operand(2)));
  return SmallVector<Value>{n.narrow(y, 0), mean, rstd};
}

LocalResults RmsNormOp::localize(Localizer &localizer) {
  Norm n(*this, getShardingRule(), localizer);
  if (!localizer.isSplit(n.h))
    return localizeByCloning(*this, localizer);
  Value x = n.mask(n.operand(0));
  Value rstd = n.inverseRoot(n.mean(n.b.mulf(x, x)), getEpsilon());
  Value y = n.b.mulf(n.b.mulf(x, n.ofRows(rstd)), n.ofColumns(n.operand(1)));
  return SmallVector<Value>{n.narrow(y, 0), rstd};
}

// With z the normalized x and g = dy weight:
// dx = rstd (g - mean(g) - z mean(g z)), dweight = sum(dy z), dbias = sum(dy).
LocalResults LayerNormGradOp::localize(Localizer &localizer) {
  Norm n(*this, getShardingRule(), localizer);
  if (!localizer.isSplit(n.h))
    return localizeByCloning(*this, localizer);
  Value rstd = n.ofRows(localizer.operands[3]), dy = n.mask(n.operand(4));
  Value z = n.mask(
      n.b.mulf(n.b.subf(n.operand(0), n.ofRows(localizer.operands[2])), rstd));
  Value g = n.mask(n.b.mulf(dy, n.ofColumns(n.operand(1))));
  Value along = n.b.mulf(z, n.ofRows(n.mean(n.b.mulf(g, z))));
  Value centered = n.b.subf(g, n.ofRows(n.mean(g)));
  Value dx = n.mask(n.b.mulf(rstd, n.b.subf(centered, along)));
  return SmallVector<Value>{n.narrow(dx, 0),
                            n.narrow(n.sumOverRows(n.b.mulf(dy, z)), 1),
                            n.narrow(n.sumOverRows(dy), 2)};
}

LocalResults RmsNormGradOp::localize(Localizer &localizer) {
  Norm n(*this, getShardingRule(), localizer);
  if (!localizer.isSplit(n.h))
    return localizeByCloning(*this, localizer);
  Value rstd = n.ofRows(localizer.operands[2]), dy = n.mask(n.operand(3));
  Value z = n.mask(n.b.mulf(n.operand(0), rstd));
  Value g = n.mask(n.b.mulf(dy, n.ofColumns(n.operand(1))));
  Value along = n.b.mulf(z, n.ofRows(n.mean(n.b.mulf(g, z))));
  Value dx = n.b.mulf(rstd, n.b.subf(g, along));
  return SmallVector<Value>{n.narrow(dx, 0),
                            n.narrow(n.sumOverRows(n.b.mulf(dy, z)), 1)};
}
