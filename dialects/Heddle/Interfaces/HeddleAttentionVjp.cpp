//===- HeddleAttentionVjp.cpp - Gradients of attention --------------------===//
//
// Queries, keys and values get their gradients from one op, which never holds
// the scores. A mask that is added to the scores, such as a trained bias of
// positions, gets its gradient from single ops, which hold the scores of one
// attention while its gradient is computed:
//
//   p = exp(scale q k^T + mask - lse)            the weights
//   dp = doutput v^T
//   dmask = p (dp - sum over d of doutput output)
//
// The gradient of the mask is the sum of dmask over the dimensions along which
// the mask was repeated.
//
//===----------------------------------------------------------------------===//

#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

/// Builds the gradient of the mask of one attention.
struct MaskGradient {
  AttentionOp op;
  OpBuilder &b;
  /// [batch, query, group, key], or with the member before the key. f32.
  RankedTensorType scores;
  bool hasMembers;

  MaskGradient(AttentionOp op, OpBuilder &b) : op(op), b(b) {
    SmallVector<int64_t> shape(op.getLse().getType().getShape());
    shape.push_back(op.getKey().getType().getDimSize(1));
    scores = RankedTensorType::get(shape, b.getF32Type());
    hasMembers = shape.size() == 5;
  }

  template <typename OpTy, typename... Args> Value make(Args &&...args) const {
    return b.create<OpTy>(op->getLoc(), std::forward<Args>(args)...);
  }

  Value wide(Value x) const {
    auto type = cast<RankedTensorType>(x.getType());
    if (type.getElementType().isF32())
      return x;
    return make<arith::ExtFOp>(type.clone(b.getF32Type()), x);
  }

  Value splat(RankedTensorType type, float number) const {
    return make<arith::ConstantOp>(
        DenseElementsAttr::get(type, b.getF32FloatAttr(number).getValue()));
  }

  /// Repeats `x` along the dimensions of the scores that are not in `along`.
  Value repeat(Value x, ArrayRef<int64_t> along) const {
    auto type = cast<RankedTensorType>(x.getType());
    return make<BroadcastOp>(
        RankedTensorType::get(scores.getShape(), type.getElementType()), x,
        b.getDenseI64ArrayAttr(along), name());
  }

  /// Repeats a number of each row for all keys.
  Value forKeys(Value x) const {
    return repeat(x, llvm::to_vector(llvm::seq<int64_t>(scores.getRank() - 1)));
  }

  /// Multiplies queries, or a tensor of their shape, with keys or values. The
  /// keys' letter is not `t` as in attention. A plan that splits `t` for a ring
  /// therefore does not split the scores along the keys; their `s` has the same
  /// axis already.
  Value product(Value rows, Value columns) const {
    return make<ContractOp>(
        scores, wide(rows), wide(columns),
        ContractionAttr::get(b.getContext(),
                             b.getStringAttr(hasMembers ? "bsnrd" : "bsnd"),
                             b.getStringAttr("bknd"),
                             b.getStringAttr(hasMembers ? "bsnrk" : "bsnk")),
        ContractPassAttr::get(b.getContext(), ContractPass::DGrad), name());
  }

  StringAttr name() const {
    return const_cast<AttentionOp &>(op).getOpNameAttr();
  }

  /// Returns 0, 1, ... along dimension `dim` of [query, key].
  Value numbers(RankedTensorType grid, int64_t dim) const {
    auto type =
        RankedTensorType::get({grid.getDimSize(dim)}, grid.getElementType());
    auto count = llvm::to_vector(
        llvm::seq<int32_t>(0, static_cast<int32_t>(grid.getDimSize(dim))));
    Value line = make<arith::ConstantOp>(
        DenseElementsAttr::get(type, ArrayRef<int32_t>(count)));
    return make<BroadcastOp>(grid, line, b.getDenseI64ArrayAttr({dim}), name());
  }

  /// Returns for [query, key] whether the causal order and the window show the
  /// key. The mask is computed, because a constant would be as large as the
  /// scores of one head.
  Value seenInOrder() {
    auto grid = RankedTensorType::get(
        {scores.getDimSize(1), scores.getShape().back()}, b.getI32Type());
    Value back = make<arith::SubIOp>(numbers(grid, 0), numbers(grid, 1));
    Value seen;
    auto require = [&](arith::CmpIPredicate predicate, int32_t bound) {
      Value next = make<arith::CmpIOp>(
          predicate, back,
          make<arith::ConstantOp>(DenseElementsAttr::get(grid, bound)));
      seen = seen ? Value(make<arith::AndIOp>(seen, next)) : next;
    };
    if (op.getCausal())
      require(arith::CmpIPredicate::sge, 0);
    if (op.getWindow()) {
      auto window = static_cast<int32_t>(std::min<int64_t>(
          *op.getWindow(), std::numeric_limits<int32_t>::max()));
      require(arith::CmpIPredicate::slt, window);
      require(arith::CmpIPredicate::sgt, -window);
    }
    return repeat(seen, {1, scores.getRank() - 1});
  }

  /// Returns the mask in the shape of the scores.
  Value wholeMask() {
    SmallVector<int64_t> kept = keptDims();
    auto type = cast<RankedTensorType>(op.getMask().getType());
    SmallVector<int64_t> shape;
    for (int64_t dim : kept)
      shape.push_back(type.getDimSize(dim));
    Value mask = op.getMask();
    if (int64_t(shape.size()) < type.getRank())
      mask = make<tensor::CollapseShapeOp>(
          RankedTensorType::get(shape, type.getElementType()), mask,
          groupsAround(kept, type.getRank()));
    return repeat(wide(mask), kept);
  }

  /// Returns the dimensions along which the mask is not repeated.
  SmallVector<int64_t> keptDims() {
    auto type = cast<RankedTensorType>(op.getMask().getType());
    SmallVector<int64_t> kept;
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (type.getDimSize(i) == scores.getDimSize(i) && type.getDimSize(i) > 1)
        kept.push_back(i);
    return kept;
  }

  /// Groups all dimensions into one group for each dimension in `kept`. The
  /// other dimensions, of size 1, join the group before them, or the first one.
  static SmallVector<ReassociationIndices> groupsAround(ArrayRef<int64_t> kept,
                                                        int64_t rank) {
    SmallVector<ReassociationIndices> groups(kept.size());
    int64_t group = 0;
    for (int64_t i = 0; i < rank && !kept.empty(); ++i) {
      if (group + 1 < int64_t(kept.size()) && kept[group + 1] == i)
        ++group;
      groups[group].push_back(i);
    }
    return groups;
  }

  /// Returns the gradient of the scores, before they are summed for the mask.
  Value ofScores(Value outputGrad) {
    float low = std::numeric_limits<float>::lowest();
    Value s = product(op.getQuery(), op.getKey());
    s = make<arith::MulFOp>(s, splat(scores, op.getScale().convertToDouble()));
    s = make<arith::AddFOp>(s, wholeMask());
    // Rows that see no key have the lse -infinity, and weights of 0.
    auto rows = cast<RankedTensorType>(op.getLse().getType());
    Value isEmpty = make<arith::CmpFOp>(arith::CmpFPredicate::OLE, op.getLse(),
                                        splat(rows, low));
    Value lse = make<arith::SelectOp>(isEmpty, splat(rows, -low), op.getLse());
    Value p = make<math::ExpOp>(make<arith::SubFOp>(s, forKeys(lse)));
    if (op.getCausal() || op.getWindow())
      p = make<arith::SelectOp>(seenInOrder(), p, splat(scores, 0));
    Value grad = wide(outputGrad);
    Value weighted = make<arith::MulFOp>(grad, wide(op.getOutput()));
    Value sums = make<ReduceOp>(
        rows, ReductionKindAttr::get(b.getContext(), ReductionKind::Sum),
        weighted, b.getDenseI64ArrayAttr({rows.getRank()}), name());
    Value dp = make<arith::SubFOp>(product(grad, op.getValue()), forKeys(sums));
    return make<arith::MulFOp>(p, dp);
  }

  Value build(Value outputGrad) {
    Value grad = ofScores(outputGrad);
    SmallVector<int64_t> kept = keptDims(), over, shape;
    for (int64_t i = 0; i < scores.getRank(); ++i)
      if (!llvm::is_contained(kept, i))
        over.push_back(i);
      else
        shape.push_back(scores.getDimSize(i));
    if (!over.empty())
      grad = make<ReduceOp>(
          RankedTensorType::get(shape, b.getF32Type()),
          ReductionKindAttr::get(b.getContext(), ReductionKind::Sum), grad,
          b.getDenseI64ArrayAttr(over), name());
    auto type = cast<RankedTensorType>(op.getMask().getType());
    if (!over.empty())
      grad = make<tensor::ExpandShapeOp>(type.clone(b.getF32Type()), grad,
                                         groupsAround(kept, type.getRank()));
    return grad;
  }
};

} // namespace

LogicalResult AttentionOp::buildVjp(OpBuilder &b, ArrayRef<Value> grads,
                                    ArrayRef<bool> wanted,
                                    MutableArrayRef<Value> operandGrads) {
  if (grads[1])
    return emitOpError() << "expected the loss not to depend on lse, whose "
                            "gradient is not defined";
  auto grad = b.create<AttentionGradOp>(
      getLoc(), getQuery().getType(), getKey().getType(), getValue().getType(),
      getQuery(), getKey(), getValue(), getOutput(), getLse(), grads[0],
      getStep(), getMask(), getOffsets(), getScaleAttr(), getCausalAttr(),
      getWindowAttr(), getDropoutAttr(), getSeedAttr(), getGlobalShapeAttr(),
      getOpNameAttr());
  for (unsigned i = 0; i < 3; ++i)
    if (wanted[i])
      operandGrads[i] = grad.getResult(i);
  if (!getMask() || !wanted[getMaskIndex()])
    return success();
  if (!getDropout().isZero())
    return emitOpError() << "expected a mask that depends on no parameter, or "
                            "no dropout: no gradient of both is defined; "
                            "compute the scores and their softmax by other ops";
  if (!getOffsets().empty())
    return emitOpError() << "expected a mask that depends on no parameter, or "
                            "attention of whole sequences: no gradient of the "
                            "mask of a part is defined; differentiate before "
                            "the program is split";
  operandGrads[getMaskIndex()] = MaskGradient(*this, b).build(grads[0]);
  return success();
}
