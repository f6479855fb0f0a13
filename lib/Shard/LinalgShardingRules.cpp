//===- LinalgShardingRules.cpp - Rules from indexing maps -----------------===//
//
// A linalg op states its loops itself: a factor is a loop, its kind follows
// from the iterator type and, for a reduction, from the op that combines.
//
//===----------------------------------------------------------------------===//

#include "Windows.h"
#include "dialects/Interfaces/Interfaces.h"
#include "heddle/Shard/ShardingRuleModels.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

/// How the op's reductions combine, or nothing where it is not known.
static std::optional<FactorKind> reductionKind(linalg::LinalgOp op) {
  if (op.getNumDpsInits() != 1)
    return std::nullopt;
  SmallVector<Operation *, 4> combiners;
  if (!matchReduction(op.getRegionOutputArgs(), 0, combiners) ||
      combiners.size() != 1)
    return std::nullopt;
  if (isa<arith::AddFOp, arith::AddIOp>(combiners[0]))
    return FactorKind::Sum;
  // Padding is masked in the operand, so the operand must be what is compared:
  // the lowest number, negated by the body, would be the highest.
  if (isa<arith::MaximumFOp, arith::MaxNumFOp, arith::MaxSIOp>(combiners[0]) &&
      op.getNumDpsInputs() == 1 &&
      llvm::is_contained(combiners[0]->getOperands(),
                         op.getRegionInputArgs()[0]))
    return FactorKind::Max;
  return std::nullopt;
}

/// A product of values of different operands, summed: linear in each of them
/// alone, together with the accumulator.
static bool isMultilinear(linalg::LinalgOp op) {
  if (op.hasIndexSemantics())
    return false;
  for (Operation &inner : op->getRegion(0).front().without_terminator())
    if (!isa<arith::MulFOp, arith::MulIOp, arith::ExtFOp, arith::ExtSIOp>(
            inner)) {
      // The combination with the accumulator comes last.
      if (!isa<arith::AddFOp, arith::AddIOp>(inner) ||
          !llvm::is_contained(op.getRegionOutputArgs(), inner.getOperand(0)) ||
          !llvm::all_of(inner.getUsers(), [](Operation *user) {
            return isa<linalg::YieldOp>(user);
          }))
        return false;
    }
  return op.getNumDpsInputs() <= 2;
}

namespace {
/// A dimension indexed by stride * loop + offsets of further loops: row i of
/// the loop reads `extent` rows from row stride * i on.
struct WindowedDim {
  unsigned loop;
  int64_t stride, extent;
};
} // namespace

/// The window of an indexing expression, if it is one: a sum of loops with
/// positive factors, of which one alone is parallel.
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

static bool startsFromZero(linalg::LinalgOp op) {
  auto fill = op.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
  return fill && (matchPattern(fill.value(), m_AnyZeroFloat()) ||
                  matchPattern(fill.value(), m_Zero()));
}

/// A loop that indexes two dimensions of a tensor (a diagonal) would have to
/// split both over the same devices; a parallel loop that a result lacks writes
/// its elements again and again.
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
  SmallVector<int64_t, 4> ranges = op.getStaticLoopRanges();
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  std::optional<FactorKind> reduction;
  if (llvm::is_contained(iterators, utils::IteratorType::reduction))
    reduction = reductionKind(op);
  for (auto [size, iterator] : llvm::zip(ranges, iterators)) {
    FactorKind kind = iterator == utils::IteratorType::parallel
                          ? FactorKind::Parallel
                          : reduction.value_or(FactorKind::Replicate);
    rule.addFactor("", size, kind);
  }
  for (OpOperand &operand : op->getOpOperands()) {
    TensorFactors dims;
    if (isa<RankedTensorType>(operand.get().getType())) {
      for (AffineExpr expr : op.getMatchingIndexingMap(&operand).getResults()) {
        DimensionFactors &factors = dims.emplace_back();
        if (auto loop = dyn_cast<AffineDimExpr>(expr)) {
          factors.push_back(loop.getPosition());
          continue;
        }
        // The rows of a window come from neighbours; its inner loops stay.
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

  // A sum that is no product adds its accumulator once, not once a device.
  if (reduction == FactorKind::Sum && !isMultilinear(op) && !startsFromZero(op))
    for (auto [factor, iterator] : llvm::zip(rule.factors, iterators))
      if (iterator == utils::IteratorType::reduction)
        factor.kind = FactorKind::Replicate;
  if (reduction == FactorKind::Sum && isMultilinear(op)) {
    unsigned accumulator = op.getNumDpsInputs();
    for (unsigned i = 0; i < op.getNumDpsInputs(); ++i)
      rule.linear.push_back({{i, accumulator}});
    rule.keepsFinite = true;
  }
  return rule;
}

/// The operands with the rows that this device's part of the result reads.
static SmallVector<Value> fetchWindows(linalg::LinalgOp op,
                                       Localizer &localizer) {
  SmallVector<Value> operands(localizer.operands);
  for (OpOperand *operand : op.getDpsInputOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand->get().getType());
    if (!type)
      continue;
    AffineMap map = op.getMatchingIndexingMap(operand);
    for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
      std::optional<WindowedDim> found =
          isa<AffineDimExpr>(expr) ? std::nullopt : getWindow(op, expr);
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

/// An index in the body is a global position.
static void shiftIndices(Operation *local, Localizer &localizer) {
  if (local->getNumRegions() == 0 || local->getRegion(0).empty())
    return;
  for (auto index :
       llvm::to_vector(local->getRegion(0).front().getOps<linalg::IndexOp>())) {
    if (!localizer.isSplit(index.getDim()))
      continue;
    OpBuilder::InsertionGuard guard(localizer.builder);
    localizer.builder.setInsertionPoint(local);
    Value offset = localizer.getOffset(index.getDim());
    localizer.builder.setInsertionPointAfter(index);
    auto shifted = localizer.builder.create<arith::AddIOp>(
        index.getLoc(), index.getResult(), offset);
    index.getResult().replaceAllUsesExcept(shifted, shifted);
  }
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
    SmallVector<Value> results = localizeByCloning(
        op, localizer, fetchWindows(cast<linalg::LinalgOp>(op), localizer));
    if (!results.empty())
      shiftIndices(results[0].getDefiningOp(), localizer);
    return results;
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

/// The op's own model, or the one for all structured ops. Random fills draw by
/// local position: they stay whole.
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
  });
}
