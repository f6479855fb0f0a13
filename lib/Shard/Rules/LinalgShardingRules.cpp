//===- LinalgShardingRules.cpp - Rules from indexing maps -----------------===//
//
// The rules of linalg ops follow from their loops. A factor is a loop; its kind
// follows from the iterator type and, for a reduction, from the combining op.
//
//===----------------------------------------------------------------------===//

#include "CombineParts.h"
#include "Windows.h"
#include "ZeroRows.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Interfaces/Interfaces.h"
#include "dialects/Interfaces/ScalarBodies.h"
#include "heddle/Shard/ShardingRuleModels.h"
#include "heddle/Support/Rows.h"
#include "heddle/Support/Zeros.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

namespace {
/// A dimension indexed by stride * loop + offsets of reduction loops. Iteration
/// i of `loop` reads `extent` rows from row stride * i on. Example: a
/// convolution's 2 * i + k with k in [0, 3) has stride 2 and extent 3.
struct WindowedDim {
  unsigned loop;
  int64_t stride, extent;
};
} // namespace

/// Returns the window of an indexing expression that is a sum of loops with
/// positive factors, if exactly one of the loops is parallel. Returns nothing
/// for any other expression.
static std::optional<WindowedDim> getWindow(linalg::LinalgOp op,
                                            AffineExpr expr) {
  AffineMap map = AffineMap::get(op.getNumLoops(), 0, expr);
  bool isLinear = true;
  expr.walk([&](AffineExpr part) {
    isLinear &= part.getKind() != AffineExprKind::Mod &&
                part.getKind() != AffineExprKind::FloorDiv &&
                part.getKind() != AffineExprKind::CeilDiv;
  });
  SmallVector<int64_t> point(op.getNumLoops(), 0);
  if (!isLinear || map.compose(point)[0] != 0)
    return std::nullopt;
  std::optional<WindowedDim> window;
  int64_t extent = 1;
  SmallVector<int64_t, 4> ranges = op.getStaticLoopRanges();
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    point[loop] = 1;
    int64_t factor = map.compose(point)[0];
    point[loop] = 0;
    if (factor == 0)
      continue;
    if (factor < 0)
      return std::nullopt;
    if (iterators[loop] == utils::IteratorType::parallel) {
      if (window)
        return std::nullopt;
      window = WindowedDim{loop, factor, 0};
    } else {
      extent += factor * (ranges[loop] - 1);
    }
  }
  if (window)
    window->extent = extent;
  return window;
}

/// Returns whether the same loop alone indexes an earlier dimension, as in a
/// diagonal. Then the earlier dimension is split. This one stays whole, and
/// each device cuts its part out of it when the op is localized.
static bool isIndexedBefore(AffineMap map, unsigned dim) {
  AffineExpr expr = map.getResult(dim);
  return isa<AffineDimExpr>(expr) &&
         llvm::is_contained(map.getResults().take_front(dim), expr);
}

/// Makes factors Replicate that cannot be split. A loop that indexes two
/// dimensions of one tensor would split both over the same devices. A parallel
/// loop that a result lacks writes the result's elements repeatedly.
static void keepWholeWhatHasNoPlace(linalg::LinalgOp op, ShardingRule &rule) {
  auto keepWhole = [&](unsigned loop) {
    rule.factors[loop].kind = FactorKind::Replicate;
  };
  for (const TensorFactors &tensor : rule.operands)
    for (unsigned loop = 0; loop < rule.factors.size(); ++loop)
      if (llvm::count_if(tensor, [&](const DimensionFactors &dim) {
            return llvm::is_contained(dim, loop);
          }) > 1)
        keepWhole(loop);
  for (const TensorFactors &result : rule.results)
    for (auto [loop, iterator] : llvm::enumerate(op.getIteratorTypesArray()))
      if (iterator == utils::IteratorType::parallel &&
          !ShardingRule::runsOver(result, loop))
        keepWhole(loop);
}

static ShardingRule linalgRule(linalg::LinalgOp op) {
  ShardingRule rule;
  std::optional<Reduction> reduction;
  if (op.getNumReductionLoops() != 0)
    reduction = findReduction(op);
  bool isChoice = findChoice(op).has_value();
  std::optional<SmallVector<unsigned>> product;
  if (reduction)
    product = findProduct(op, *reduction);
  for (int64_t size : op.getStaticLoopRanges())
    rule.addFactor("", size, FactorKind::Parallel);
  bool isOutermost = true;
  for (unsigned loop : getReducedLoops(op)) {
    // Of equal elements the first is chosen, so the order of devices must be
    // that of iterations. This holds for the outermost reduced loop only.
    rule.factors[loop].kind = reduction                 ? reduction->kind
                              : isChoice && isOutermost ? FactorKind::Combine
                                                        : FactorKind::Replicate;
    isOutermost &= rule.factors[loop].size == 1;
    // The sum of a product ignores padding if it is zero in one of the inputs.
    // Every other body masks its padding itself (localizeBody).
    rule.factors[loop].masksItself = !product;
  }
  for (OpOperand &operand : op->getOpOperands()) {
    TensorFactors dims;
    if (isa<RankedTensorType>(operand.get().getType())) {
      AffineMap map = op.getMatchingIndexingMap(&operand);
      for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
        DimensionFactors &factors = dims.emplace_back();
        if (auto loop = dyn_cast<AffineDimExpr>(expr)) {
          if (!op.isDpsInput(&operand) || !isIndexedBefore(map, dim))
            factors.push_back(loop.getPosition());
          continue;
        }
        // The rows of a window come from other devices, so the window's inner
        // loops stay whole.
        std::optional<WindowedDim> window;
        if (op.isDpsInput(&operand))
          window = getWindow(op, expr);
        expr.walk([&](AffineExpr part) {
          auto loop = dyn_cast<AffineDimExpr>(part);
          if (loop && (!window || loop.getPosition() != window->loop))
            rule.factors[loop.getPosition()].kind = FactorKind::Replicate;
        });
        if (window) {
          factors.push_back(window->loop);
          rule.factors[window->loop].padding = PaddingRule::NeverZero;
        }
      }
    }
    rule.operands.push_back(dims);
  }
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    rule.results.push_back(rule.operands[op.getNumDpsInputs() + i]);
  keepWholeWhatHasNoPlace(op, rule);

  if (product) {
    unsigned accumulator = op.getNumDpsInputs();
    for (unsigned input : *product)
      rule.linear.push_back({{input, accumulator}});
    rule.keepsFinite = true;
  }
  if (LinearBody linear = findLinearGroups(op); !linear.groups.empty()) {
    rule.linear = std::move(linear.groups);
    rule.keepsFinite = !linear.divides;
    rule.defersPartialSums = true;
  }
  return rule;
}

/// Returns this device's part of `whole` along dimension `dim`, which the split
/// loop indexes.
static Value cutPart(Value whole, unsigned dim, unsigned loop,
                     Localizer &localizer) {
  OpBuilder &builder = localizer.builder;
  Location loc = whole.getLoc();
  auto type = cast<RankedTensorType>(whole.getType());
  int64_t degree = localizer.getDegree(loop),
          part = llvm::divideCeil(type.getDimSize(dim), degree);
  whole = padRows(builder, loc, whole, dim, part * degree);
  return extractRows(builder, loc, whole, dim, localizer.getOffset(loop), part);
}

/// Returns the operands, each with the rows that this device's part of the
/// result reads.
static SmallVector<Value> fetchWindows(linalg::LinalgOp op,
                                       Localizer &localizer) {
  SmallVector<Value> operands(localizer.operands);
  for (OpOperand *operand : op.getDpsInputOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand->get().getType());
    if (!type)
      continue;
    AffineMap map = op.getMatchingIndexingMap(operand);
    for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
      if (auto loop = dyn_cast<AffineDimExpr>(expr)) {
        Value &local = operands[operand->getOperandNumber()];
        if (isIndexedBefore(map, dim) && localizer.isSplit(loop.getPosition()))
          local = cutPart(local, dim, loop.getPosition(), localizer);
        continue;
      }
      std::optional<WindowedDim> found = getWindow(op, expr);
      if (!found || !localizer.isSplit(found->loop))
        continue;
      int64_t rows = op.getStaticLoopRanges()[found->loop];
      int64_t part = llvm::divideCeil(rows, localizer.getDegree(found->loop));
      Window window{0, found->stride * part,
                    found->stride * (part - 1) + found->extent};
      Value &local = operands[operand->getOperandNumber()];
      local = fetchWindow(local, dim, type.getDimSize(dim), window, localizer,
                          found->loop);
    }
  }
  return operands;
}

/// Localizes a structured op. The initial value of a sum over several devices
/// counts on the first device alone. For a product, the rule makes the
/// accumulator partial, because it is linear together with the product's
/// inputs.
static SmallVector<Value> localizeStructured(linalg::LinalgOp op,
                                             Localizer &localizer) {
  SmallVector<Value> operands = fetchWindows(op, localizer);
  std::optional<Reduction> reduction = findReduction(op);
  SmallVector<unsigned> split;
  for (unsigned loop : getReducedLoops(op))
    if (localizer.isSplit(loop))
      split.push_back(loop);
  bool isProduct = reduction && findProduct(op, *reduction);
  if (!split.empty() && reduction && !isProduct &&
      !isIdempotent(reduction->combiner) &&
      !(reduction->kind == FactorKind::Sum && isZeros(op.getDpsInits()[0]))) {
    Value &accumulator = operands[op.getNumDpsInputs()];
    accumulator = startOnce(accumulator, getNeutral(reduction->combiner),
                            localizer, split);
  }
  SmallVector<Value> results = localizeByCloning(op, localizer, operands);
  if (results.empty())
    return results;
  Operation *local = localizeBody(
      results[0].getDefiningOp(), op.getStaticLoopRanges(), localizer,
      isProduct ? ArrayRef<unsigned>() : ArrayRef(split));
  results.assign(local->result_begin(), local->result_end());
  if (split.empty())
    return results;
  if (!reduction)
    return combineParts(results, op, localizer, split);
  if (reduction->kind == FactorKind::Combine)
    results[0] =
        combineParts(results[0], reduction->combiner, localizer, split);
  return results;
}

namespace {

template <typename OpTy>
struct LinalgModel
    : ShardingRuleOpInterface::ExternalModel<LinalgModel<OpTy>, OpTy> {
  ShardingRule getShardingRule(Operation *op) const {
    return linalgRule(cast<linalg::LinalgOp>(op));
  }
  FailureOr<SmallVector<Value>> localize(Operation *op,
                                         Localizer &localizer) const {
    return localizeStructured(cast<linalg::LinalgOp>(op), localizer);
  }
};

struct FillModel
    : ShardingRuleOpInterface::ExternalModel<FillModel, linalg::FillOp> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = linalgRule(cast<linalg::LinalgOp>(op));
    rule.keepsFinite = true;
    Value value = cast<linalg::FillOp>(op).value();
    if (matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero()))
      for (Factor &factor : rule.factors)
        factor.padding = PaddingRule::Zero;
    return rule;
  }
};

struct TransposeModel
    : ShardingRuleOpInterface::ExternalModel<TransposeModel,
                                             linalg::TransposeOp> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = linalgRule(cast<linalg::LinalgOp>(op));
    rule.linear = {{{0}}};
    rule.keepsFinite = true;
    return rule;
  }
};

/// Softmax. If its dimension is split, each device takes the exponentials of
/// its own part, with the maximum and the sum over all devices.
struct SoftmaxModel
    : ShardingRuleOpInterface::ExternalModel<SoftmaxModel, linalg::SoftmaxOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto softmax = cast<linalg::SoftmaxOp>(op);
    ShardingRule rule;
    TensorFactors dims;
    for (auto [i, size] :
         llvm::enumerate(softmax.getInputOperandType().getShape()))
      dims.push_back(
          {rule.addFactor("", size,
                          i == softmax.getDimension() ? FactorKind::Combine
                                                      : FactorKind::Parallel)});
    rule.operands = {dims, dims};
    rule.results.assign(op->getNumResults(), dims);
    return rule;
  }

  FailureOr<SmallVector<Value>> localize(Operation *op,
                                         Localizer &localizer) const {
    auto softmax = cast<linalg::SoftmaxOp>(op);
    unsigned dim = softmax.getDimension();
    if (!localizer.isSplit(dim))
      return localizeByCloning(op, localizer);
    OpBuilder &b = localizer.builder;
    Location loc = op->getLoc();
    Value x = localizer.operands[0];
    auto type = cast<RankedTensorType>(x.getType());
    int64_t size = softmax.getInputOperandType().getDimSize(dim);
    SmallVector<int64_t> kept, sizes;
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (i != int64_t(dim)) {
        kept.push_back(i);
        sizes.push_back(type.getDimSize(i));
      }
    auto mask = [&](Value value, PaddingValue with) -> Value {
      if (!localizer.isPadded(dim))
        return value;
      return b.create<MaskPaddingOp>(
          loc, type, value, ValueRange{localizer.getOffset(dim)},
          ArrayRef<int64_t>{dim}, ArrayRef<int64_t>{size}, with);
    };
    auto overAll = [&](Value value, ReductionKind kind) -> Value {
      Value mine =
          b.create<heddle::ReduceOp>(loc, type.clone(sizes), kind, value,
                                     ArrayRef<int64_t>{dim}, StringAttr());
      Value all = localizer.allReduce(
          mine, kind == ReductionKind::Max ? FactorKind::Max : FactorKind::Sum,
          dim);
      return b.create<heddle::BroadcastOp>(loc, type, all, kept, StringAttr());
    };
    Value largest = overAll(mask(x, PaddingValue::Lowest), ReductionKind::Max);
    Value exponentials =
        b.create<math::ExpOp>(loc, b.create<arith::SubFOp>(loc, x, largest));
    Value sum =
        overAll(mask(exponentials, PaddingValue::Zero), ReductionKind::Sum);
    return SmallVector<Value>{b.create<arith::DivFOp>(loc, exponentials, sum)};
  }
};

/// Attaches the op's own model, or the model of all structured ops. Random
/// fills draw numbers by local position, so they get no model and stay whole.
template <typename OpTy> void attachLinalg(MLIRContext *context) {
  if constexpr (std::is_same_v<OpTy, linalg::FillOp>)
    OpTy::template attachInterface<FillModel>(*context);
  else if constexpr (std::is_same_v<OpTy, linalg::TransposeOp>)
    OpTy::template attachInterface<TransposeModel>(*context);
  else if constexpr (!std::is_same_v<OpTy, linalg::FillRng2DOp>)
    OpTy::template attachInterface<LinalgModel<OpTy>>(*context);
}

template <typename... Ops> void attachAllLinalg(MLIRContext *context) {
  (attachLinalg<Ops>(context), ...);
}

} // namespace

void heddle::registerLinalgShardingRuleModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attachAllLinalg<
#define GET_OP_LIST
#include "mlir/Dialect/Linalg/IR/LinalgStructuredOps.cpp.inc"
        >(context);
    linalg::SoftmaxOp::attachInterface<SoftmaxModel>(*context);
  });
}
