//===- TensorShardingRules.cpp - Changes of shape -------------------------===//

#include "StructuredBodies.h"
#include "Windows.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Interfaces/Interfaces.h"
#include "heddle/Shard/ShardingRuleModels.h"
#include "heddle/Support/GenerateForm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

using LocalResults = FailureOr<SmallVector<Value>>;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Returns the rule of a reshape. Each dimension of `fine`, the tensor of
/// higher rank, has a parallel factor. Each dimension of the other tensor
/// merges the factors of one group.
static ShardingRule reshapeRule(RankedTensorType fine,
                                ArrayRef<ReassociationIndices> reassociation,
                                bool expand) {
  ShardingRule rule;
  TensorFactors fineDims, coarseDims;
  for (int64_t size : fine.getShape())
    fineDims.push_back({rule.addFactor("", size, FactorKind::Parallel)});
  for (const ReassociationIndices &group : reassociation) {
    DimensionFactors &dim = coarseDims.emplace_back();
    for (int64_t i : group)
      if (fine.getDimSize(i) != 1 || group.size() == 1)
        dim.push_back(i);
      else // its padding would have no place in the merged dimension
        rule.factors[i].kind = FactorKind::Replicate;
  }
  rule.operands = {expand ? coarseDims : fineDims};
  rule.results = {expand ? fineDims : coarseDims};
  rule.linear = {{{0}}};
  rule.keepsFinite = true;
  rule.defersPartialSums = true;
  return rule;
}

namespace {

struct ExpandShapeModel
    : ShardingRuleOpInterface::ExternalModel<ExpandShapeModel,
                                             tensor::ExpandShapeOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto expand = cast<tensor::ExpandShapeOp>(op);
    ShardingRule rule = reshapeRule(expand.getResultType(),
                                    expand.getReassociationIndices(), true);
    rule.operands.resize(op->getNumOperands());
    return rule;
  }
  LocalResults localize(Operation *op, Localizer &localizer) const {
    auto expand = cast<tensor::ExpandShapeOp>(op);
    return SmallVector<Value>{localizer.builder.create<tensor::ExpandShapeOp>(
        op->getLoc(), localizer.resultTypes[0], localizer.operands[0],
        expand.getReassociationIndices())};
  }
};

struct CollapseShapeModel
    : ShardingRuleOpInterface::ExternalModel<CollapseShapeModel,
                                             tensor::CollapseShapeOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto collapse = cast<tensor::CollapseShapeOp>(op);
    return reshapeRule(collapse.getSrcType(),
                       collapse.getReassociationIndices(), false);
  }
};

/// A factor of the result's size splits a dimension that is padded. Each device
/// fetches the rows of the source that its part of the result contains.
struct PadModel
    : ShardingRuleOpInterface::ExternalModel<PadModel, tensor::PadOp> {
  static bool isWhole(tensor::PadOp pad, int64_t i) {
    return pad.getStaticLow()[i] == 0 && pad.getStaticHigh()[i] == 0;
  }

  /// Returns whether the number and value of the added rows are constants, so
  /// that any device can make them.
  static bool isKnown(tensor::PadOp pad) {
    TypedAttr value; // complex constants are no TypedAttr
    return pad.getResultType().hasStaticShape() && pad->getNumOperands() == 1 &&
           pad.getConstantPaddingValue() &&
           matchPattern(pad.getConstantPaddingValue(), m_Constant(&value));
  }

  ShardingRule getShardingRule(Operation *op) const {
    auto pad = cast<tensor::PadOp>(op);
    ShardingRule rule;
    rule.operands.resize(op->getNumOperands());
    rule.results.resize(1);
    Value value = pad.getConstantPaddingValue();
    bool isZero = value && (matchPattern(value, m_AnyZeroFloat()) ||
                            matchPattern(value, m_Zero()));
    bool known = isKnown(pad);
    for (int64_t i = 0; i < pad.getSourceType().getRank(); ++i) {
      DimensionFactors factors;
      if (isWhole(pad, i) || known)
        factors = {rule.addFactor("", pad.getResultType().getDimSize(i),
                                  FactorKind::Parallel)};
      if (!isWhole(pad, i) && known)
        rule.factors.back().padding =
            isZero ? PaddingRule::Zero : PaddingRule::NeverZero;
      rule.operands[0].push_back(factors);
      rule.results[0].push_back(factors);
    }
    rule.keepsFinite = true;
    if (isZero) {
      rule.linear = {{{0}}};
      rule.defersPartialSums = true;
    }
    return rule;
  }

  LocalResults localize(Operation *op, Localizer &localizer) const {
    auto pad = cast<tensor::PadOp>(op);
    OpBuilder &builder = localizer.builder;
    Value source = localizer.operands[0];
    // For each split dimension that is padded, fetches the source rows of this
    // device's part and writes the pad's value to all other rows.
    SmallVector<int64_t> low(pad.getStaticLow()), high(pad.getStaticHigh());
    unsigned factor = 0;
    for (int64_t i = 0; i < pad.getSourceType().getRank(); ++i) {
      if (!isWhole(pad, i) && !isKnown(pad))
        continue; // the dimension has no factor
      unsigned mine = factor++;
      if (isWhole(pad, i) || !localizer.isSplit(mine))
        continue;
      int64_t part = llvm::divideCeil(pad.getResultType().getDimSize(i),
                                      localizer.getDegree(mine));
      int64_t size = pad.getSourceType().getDimSize(i);
      source =
          fetchWindow(source, i, size, {-low[i], part, part}, localizer, mine);
      source = keepRows(builder, pad, source, i, low[i], size,
                        localizer.getOffset(mine));
      low[i] = high[i] = 0;
    }
    if (source.getType() == localizer.resultTypes[0])
      return SmallVector<Value>{source};
    size_t lows = pad.getLow().size();
    ValueRange amounts = ValueRange(localizer.operands).drop_front();
    auto local = builder.create<tensor::PadOp>(
        op->getLoc(), localizer.resultTypes[0], source, low, high,
        amounts.take_front(lows), amounts.drop_front(lows));
    IRMapping mapping;
    pad.getRegion().cloneInto(&local.getRegion(), mapping);
    return SmallVector<Value>{local};
  }

  /// Returns `rows` with the pad's value in all rows that come from no row of
  /// the source. Row i of dimension `dim` is row `offset` + i of the result,
  /// and the source begins at row `low` of the result.
  static Value keepRows(OpBuilder &builder, tensor::PadOp pad, Value rows,
                        int64_t dim, int64_t low, int64_t size, Value offset) {
    auto type = typeOf(rows);
    Location loc = pad.getLoc();
    Value empty = builder.create<tensor::EmptyOp>(loc, type.getShape(),
                                                  type.getElementType());
    AffineMap identity = builder.getMultiDimIdentityMap(type.getRank());
    SmallVector<utils::IteratorType> parallel(type.getRank(),
                                              utils::IteratorType::parallel);
    Attribute value;
    matchPattern(pad.getConstantPaddingValue(), m_Constant(&value));
    auto masked = builder.create<linalg::GenericOp>(
        loc, type, rows, empty, ArrayRef<AffineMap>{identity, identity},
        parallel, [&](OpBuilder &b, Location at, ValueRange arguments) {
          Value row = b.create<arith::AddIOp>(
              at, b.create<linalg::IndexOp>(at, dim), offset);
          Value from = b.create<arith::SubIOp>(
              at, row, b.create<arith::ConstantIndexOp>(at, low));
          // Compares unsigned numbers, so that a row before the first is too
          // large.
          Value isIn = b.create<arith::CmpIOp>(
              at, arith::CmpIPredicate::ult, from,
              b.create<arith::ConstantIndexOp>(at, size));
          Value other = b.create<arith::ConstantOp>(at, cast<TypedAttr>(value));
          b.create<linalg::YieldOp>(
              at, b.create<arith::SelectOp>(at, isIn, arguments[0], other)
                      .getResult());
        });
    return masked.getResult(0);
  }
};

/// A factor for each dimension of the indices except the last, which holds
/// coordinates, and for each dimension of the source. If a gathered dimension
/// is split, each device fills in the rows that it holds and zeros elsewhere.
/// The sum over the devices is the result.
struct GatherModel
    : ShardingRuleOpInterface::ExternalModel<GatherModel, tensor::GatherOp> {
  /// Returns whether devices may add up rows: elements must be numbers, and the
  /// result no larger than the source, which would be gathered otherwise.
  static bool canSumRows(tensor::GatherOp gather) {
    return gather.getSourceType().hasStaticShape() &&
           gather.getResultType().hasStaticShape() &&
           gather.getSourceType().getElementType().isIntOrIndexOrFloat() &&
           !gather.getSourceType().getElementType().isInteger(1) &&
           gather.getResultType().getNumElements() <=
               gather.getSourceType().getNumElements();
  }

  ShardingRule getShardingRule(Operation *op) const {
    auto gather = cast<tensor::GatherOp>(op);
    RankedTensorType source = gather.getSourceType(),
                     indices = gather.getIndicesType();
    ArrayRef<int64_t> gathered = gather.getGatherDims();
    ShardingRule rule;
    TensorFactors from, at, result;
    for (int64_t size : indices.getShape().drop_back()) {
      at.push_back({rule.addFactor("", size, FactorKind::Parallel)});
      result.push_back(at.back());
    }
    at.emplace_back();
    bool canSum = canSumRows(gather);
    for (int64_t i = 0; i < source.getRank(); ++i) {
      bool isIndexed = llvm::is_contained(gathered, i);
      FactorKind kind = !isIndexed ? FactorKind::Parallel
                        : canSum   ? FactorKind::Sum
                                   : FactorKind::Replicate;
      from.push_back({rule.addFactor("", source.getDimSize(i), kind)});
      rule.factors.back().masksItself = isIndexed;
      if (!isIndexed)
        result.push_back(from.back());
      else if (keepsIndexed(gather))
        result.emplace_back();
    }
    rule.operands = {from, at};
    rule.results = {result};
    rule.keepsFinite = true;
    return rule;
  }

  LocalResults localize(Operation *op, Localizer &localizer) const {
    auto gather = cast<tensor::GatherOp>(op);
    SmallVector<Value> operands(localizer.operands);
    // Padding of the indices may hold invalid coordinates, so it becomes zero.
    SmallVector<Value> offsets;
    SmallVector<int64_t> dims, sizes;
    ArrayRef<int64_t> shape = gather.getIndicesType().getShape();
    for (int64_t i = 0; i < int64_t(shape.size()) - 1; ++i)
      if (localizer.isPadded(i)) {
        offsets.push_back(localizer.getOffset(i));
        dims.push_back(i);
        sizes.push_back(shape[i]);
      }
    if (!dims.empty())
      operands[1] = localizer.builder.create<MaskPaddingOp>(
          op->getLoc(), operands[1].getType(), operands[1], offsets, dims,
          sizes, PaddingValue::Zero);
    unsigned first = shape.size() - 1; // the factor of the source's dimension 0
    if (llvm::none_of(gather.getGatherDims(), [&](int64_t dim) {
          return localizer.isSplit(first + dim);
        }))
      return localizeByCloning(op, localizer, operands);
    return SmallVector<Value>{
        findRows(gather, operands[0], operands[1], first, localizer)};
  }

private:
  /// Returns whether the result keeps the gathered dimensions, with size 1.
  static bool keepsIndexed(tensor::GatherOp gather) {
    return gather.getResultType().getRank() ==
           gather.getIndicesType().getRank() - 1 +
               gather.getSourceType().getRank();
  }

  /// Returns the gathered rows that this device's part of the source holds, and
  /// zeros for all other rows.
  static Value findRows(tensor::GatherOp gather, Value source, Value indices,
                        unsigned firstFactor, Localizer &localizer) {
    auto type = cast<RankedTensorType>(localizer.resultTypes[0]);
    ArrayRef<int64_t> gathered = gather.getGatherDims();
    SmallVector<Value> offsets;
    for (int64_t dim : gathered)
      offsets.push_back(localizer.getOffset(firstFactor + dim));
    Value empty = localizer.builder.create<tensor::EmptyOp>(
        gather.getLoc(), type.getShape(), type.getElementType());
    SmallVector<utils::IteratorType> parallel(type.getRank(),
                                              utils::IteratorType::parallel);
    auto fill = [&](OpBuilder &b, Location at, ValueRange) {
      Value zero = b.create<arith::ConstantIndexOp>(at, 0), isMine;
      SmallVector<Value> coordinate, place(typeOf(source).getRank());
      for (unsigned i = 0; i < firstFactor; ++i)
        coordinate.push_back(b.create<linalg::IndexOp>(at, i));
      coordinate.emplace_back();
      for (auto [i, dim] : llvm::enumerate(gathered)) {
        coordinate.back() = b.create<arith::ConstantIndexOp>(at, i);
        Value row = b.create<tensor::ExtractOp>(at, indices, coordinate);
        if (!row.getType().isIndex())
          row = b.create<arith::IndexCastOp>(at, b.getIndexType(), row);
        row = b.create<arith::SubIOp>(at, row, offsets[i]);
        // Compares unsigned numbers, so that a row before the first is too
        // large.
        Value isIn =
            b.create<arith::CmpIOp>(at, arith::CmpIPredicate::ult, row,
                                    b.create<arith::ConstantIndexOp>(
                                        at, typeOf(source).getDimSize(dim)));
        place[dim] = b.create<arith::SelectOp>(at, isIn, row, zero);
        isMine = isMine ? b.create<arith::AndIOp>(at, isMine, isIn).getResult()
                        : isIn;
      }
      int64_t next = firstFactor;
      for (Value &index : place) {
        bool isGathered = bool(index);
        if (!isGathered)
          index = b.create<linalg::IndexOp>(at, next);
        next += !isGathered || keepsIndexed(gather);
      }
      Value element = b.create<tensor::ExtractOp>(at, source, place);
      Value nothing =
          b.create<arith::ConstantOp>(at, b.getZeroAttr(type.getElementType()));
      b.create<linalg::YieldOp>(
          at,
          b.create<arith::SelectOp>(at, isMine, element, nothing).getResult());
    };
    return localizer.builder
        .create<linalg::GenericOp>(
            gather.getLoc(), type, ValueRange(), empty,
            ArrayRef<AffineMap>{
                localizer.builder.getMultiDimIdentityMap(type.getRank())},
            parallel, fill)
        .getResult(0);
  }
};

/// One factor a dimension. The body's arguments are global positions.
struct GenerateModel
    : ShardingRuleOpInterface::ExternalModel<GenerateModel,
                                             tensor::GenerateOp> {
  ShardingRule getShardingRule(Operation *op) const {
    return ShardingRule::elementwise(op);
  }

  /// Rewrites the op as a linalg.generic, because localizeBody keeps its
  /// padding from trapping.
  LocalResults localize(Operation *op, Localizer &localizer) const {
    auto generate = cast<tensor::GenerateOp>(op);
    auto type = cast<RankedTensorType>(generate.getType());
    bool isSplit = false;
    for (int64_t i = 0; i < type.getRank(); ++i)
      isSplit |= localizer.isSplit(i);
    if (!isSplit)
      return localizeByCloning(op, localizer);
    linalg::GenericOp local =
        toStructured(localizer.builder, generate,
                     cast<RankedTensorType>(localizer.resultTypes[0]));
    return SmallVector<Value>(
        localizeBody(local, type.getShape(), localizer, {})->getResults());
  }
};

/// An op that makes a tensor out of a scalar or of nothing. Each device makes
/// its own part.
template <typename OpTy>
struct MakeModel
    : ShardingRuleOpInterface::ExternalModel<MakeModel<OpTy>, OpTy> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = ShardingRule::elementwise(op);
    if (op->getNumOperands() > std::is_same_v<OpTy, tensor::SplatOp>)
      for (Factor &factor : rule.factors) // dynamic sizes
        factor.kind = FactorKind::Replicate;
    return rule;
  }
};

} // namespace

void heddle::registerTensorShardingRuleModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    using namespace tensor;
    ExpandShapeOp::attachInterface<ExpandShapeModel>(*context);
    CollapseShapeOp::attachInterface<CollapseShapeModel>(*context);
    PadOp::attachInterface<PadModel>(*context);
    GatherOp::attachInterface<GatherModel>(*context);
    GenerateOp::attachInterface<GenerateModel>(*context);
    SplatOp::attachInterface<MakeModel<SplatOp>>(*context);
    EmptyOp::attachInterface<MakeModel<EmptyOp>>(*context);
  });
}
