//===- LinalgShardingRules.cpp - Rules from indexing maps -----------------===//
//
// A linalg op states its loops itself: a factor is a loop, its kind follows
// from the iterator type and, for a reduction, from the op that combines.
//
//===----------------------------------------------------------------------===//

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
  if (isa<arith::MaximumFOp, arith::MaxNumFOp, arith::MaxSIOp>(combiners[0]))
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
    // An index in the body is a global position.
    if (op.hasIndexSemantics())
      kind = FactorKind::Replicate;
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
        // A window (i + k): its loops cannot be split without neighbours.
        expr.walk([&](AffineExpr part) {
          if (auto loop = dyn_cast<AffineDimExpr>(part))
            rule.factors[loop.getPosition()].kind = FactorKind::Replicate;
        });
      }
    }
    rule.operands.push_back(dims);
  }
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    rule.results.push_back(rule.operands[op.getNumDpsInputs() + i]);

  if (reduction == FactorKind::Sum && isMultilinear(op)) {
    unsigned accumulator = op.getNumDpsInputs();
    for (unsigned i = 0; i < op.getNumDpsInputs(); ++i)
      rule.linear.push_back({{i, accumulator}});
    rule.keepsFinite = true;
  }
  return rule;
}

namespace {

template <typename OpTy>
struct LinalgModel
    : ShardingRuleOpInterface::ExternalModel<LinalgModel<OpTy>, OpTy> {
  ShardingRule getShardingRule(Operation *op) const {
    return linalgRule(cast<linalg::LinalgOp>(op));
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

template <typename... Ops> void attachLinalg(MLIRContext *context) {
  (Ops::template attachInterface<LinalgModel<Ops>>(*context), ...);
}

} // namespace

void heddle::registerLinalgShardingRuleModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    using namespace linalg;
    FillOp::attachInterface<FillModel>(*context);
    TransposeOp::attachInterface<TransposeModel>(*context);
    attachLinalg<GenericOp, MapOp, ReduceOp, BroadcastOp, MatmulOp,
                 MatmulTransposeAOp, MatmulTransposeBOp, BatchMatmulOp,
                 BatchMatmulTransposeAOp, BatchMatmulTransposeBOp, MatvecOp,
                 VecmatOp, BatchMatvecOp, DotOp, CopyOp, ExpOp, LogOp, AbsOp,
                 CeilOp, FloorOp, NegFOp, ReciprocalOp, RoundOp, SqrtOp,
                 RsqrtOp, SquareOp, TanhOp, ErfOp, AddOp, SubOp, MulOp, DivOp,
                 DivUnsignedOp, MaxOp, MinOp, PowFOp, SelectOp, ElemwiseUnaryOp,
                 ElemwiseBinaryOp, Conv1DNwcWcfOp, Conv2DNhwcHwcfOp,
                 Conv2DNchwFchwOp, PoolingNhwcSumOp, PoolingNhwcMaxOp>(context);
  });
}
