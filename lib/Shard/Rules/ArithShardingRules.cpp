//===- ArithShardingRules.cpp - arith and math: elementwise ---------------===//

#include "StructuredBodies.h"
#include "dialects/Interfaces/Interfaces.h"
#include "heddle/Shard/ShardingRuleModels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;

namespace {

/// An elementwise op whose rule states nothing about padding or partial sums.
template <typename OpTy>
struct ElementwiseModel
    : ShardingRuleOpInterface::ExternalModel<ElementwiseModel<OpTy>, OpTy> {
  ShardingRule getShardingRule(Operation *op) const {
    return ShardingRule::elementwise(op);
  }
};

/// Integer division. It traps on a divisor of zero, so padding of the divisor
/// is replaced by ones.
template <typename OpTy>
struct IntegerDivisionModel
    : ShardingRuleOpInterface::ExternalModel<IntegerDivisionModel<OpTy>, OpTy> {
  ShardingRule getShardingRule(Operation *op) const {
    return ShardingRule::elementwise(op);
  }
  FailureOr<SmallVector<Value>> localize(Operation *op,
                                         Localizer &localizer) const {
    SmallVector<Value> operands(localizer.operands);
    operands[1] = guardDivisor(op, operands[1], localizer);
    return localizeByCloning(op, localizer, operands);
  }
};

/// An op whose effect on padding is known. `zeroOfZeros`: zero operands give
/// zero. `finiteOfFinite`: finite operands give a finite result.
template <typename OpTy, bool zeroOfZeros, bool finiteOfFinite>
struct PaddingModel
    : ShardingRuleOpInterface::ExternalModel<
          PaddingModel<OpTy, zeroOfZeros, finiteOfFinite>, OpTy> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = ShardingRule::elementwise(op);
    rule.preservesZeroPadding = zeroOfZeros;
    rule.keepsFinite = finiteOfFinite;
    return rule;
  }
};
template <typename OpTy> using ZeroAtZeroModel = PaddingModel<OpTy, true, true>;
/// Ops that give zero for zero, but infinity or NaN for some finite operands:
/// sqrt of a negative number, bits read as a float.
template <typename OpTy>
using OnlyZeroAtZeroModel = PaddingModel<OpTy, true, false>;
template <typename OpTy> using FiniteModel = PaddingModel<OpTy, false, true>;

/// Conversions of integers to floats. Zero gives zero, but an integer too large
/// for a narrow type gives infinity.
template <typename OpTy>
struct IntegerToFloatModel
    : ShardingRuleOpInterface::ExternalModel<IntegerToFloatModel<OpTy>, OpTy> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = ShardingRule::elementwise(op);
    rule.preservesZeroPadding = true;
    rule.keepsFinite = isFiniteForAll(op);
    return rule;
  }
};

/// An op that is linear in the given operands: in all of them together (a + b),
/// or in each while the others are held (a * b).
template <typename OpTy, bool together, unsigned... operands>
struct LinearModel : ShardingRuleOpInterface::ExternalModel<
                         LinearModel<OpTy, together, operands...>, OpTy> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = ShardingRule::elementwise(op);
    if (together)
      rule.linear = {{{operands...}}};
    else
      rule.linear = {{{operands}}...};
    rule.keepsFinite = !isa<arith::DivFOp>(op);
    rule.defersPartialSums = true;
    return rule;
  }
};

/// A constant. Each device makes its own part of a splat. Other constants are
/// whole on every device.
struct ConstantModel
    : ShardingRuleOpInterface::ExternalModel<ConstantModel, arith::ConstantOp> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = ShardingRule::elementwise(op);
    rule.keepsFinite = true;
    if (!isa<SplatElementsAttr>(cast<arith::ConstantOp>(op).getValue()))
      for (Factor &factor : rule.factors)
        factor.kind = FactorKind::Replicate;
    auto splat =
        dyn_cast<SplatElementsAttr>(cast<arith::ConstantOp>(op).getValue());
    if (splat && isZero(splat.getSplatValue<Attribute>()))
      for (Factor &factor : rule.factors)
        factor.padding = PaddingRule::Zero;
    return rule;
  }
  FailureOr<SmallVector<Value>> localize(Operation *op,
                                         Localizer &localizer) const {
    auto value = cast<arith::ConstantOp>(op).getValue();
    if (auto splat = dyn_cast<SplatElementsAttr>(value))
      value = splat.resizeSplat(cast<ShapedType>(localizer.resultTypes[0]));
    return SmallVector<Value>{
        localizer.builder.create<arith::ConstantOp>(op->getLoc(), value)};
  }

private:
  static bool isZero(Attribute value) {
    if (auto number = dyn_cast<FloatAttr>(value))
      return number.getValue().isZero();
    if (auto number = dyn_cast<IntegerAttr>(value))
      return number.getValue().isZero();
    return false;
  }
};

template <template <typename> class Model, typename... Ops>
void attach(MLIRContext *context) {
  (Ops::template attachInterface<Model<Ops>>(*context), ...);
}

} // namespace

void heddle::registerArithShardingRuleModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    using namespace arith;
    ConstantOp::attachInterface<ConstantModel>(*context);
    AddFOp::attachInterface<LinearModel<AddFOp, true, 0, 1>>(*context);
    SubFOp::attachInterface<LinearModel<SubFOp, true, 0, 1>>(*context);
    MulFOp::attachInterface<LinearModel<MulFOp, false, 0, 1>>(*context);
    DivFOp::attachInterface<LinearModel<DivFOp, true, 0>>(*context);
    NegFOp::attachInterface<LinearModel<NegFOp, true, 0>>(*context);
    ExtFOp::attachInterface<LinearModel<ExtFOp, true, 0>>(*context);
    AddIOp::attachInterface<LinearModel<AddIOp, true, 0, 1>>(*context);
    SubIOp::attachInterface<LinearModel<SubIOp, true, 0, 1>>(*context);
    MulIOp::attachInterface<LinearModel<MulIOp, false, 0, 1>>(*context);
    SelectOp::attachInterface<LinearModel<SelectOp, true, 1, 2>>(*context);
    attach<ZeroAtZeroModel, MaximumFOp, MinimumFOp, MaxNumFOp, MinNumFOp,
           MaxSIOp, MinSIOp, MaxUIOp, MinUIOp, AndIOp, OrIOp, XOrIOp, ShLIOp,
           ShRSIOp, ShRUIOp, ExtSIOp, ExtUIOp, TruncIOp, FPToSIOp, FPToUIOp,
           IndexCastOp, IndexCastUIOp>(context);
    // Not linear: the rounded parts of a sum do not add up to the rounded sum.
    // Not finite: the largest numbers of the wider type are infinite in the
    // narrower one.
    attach<OnlyZeroAtZeroModel, BitcastOp, TruncFOp>(context);
    attach<IntegerToFloatModel, SIToFPOp, UIToFPOp>(context);
    attach<FiniteModel, CmpFOp, CmpIOp>(context);
    attach<IntegerDivisionModel, DivSIOp, DivUIOp, CeilDivSIOp, CeilDivUIOp,
           FloorDivSIOp, RemSIOp, RemUIOp>(context);
    attach<ElementwiseModel, RemFOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    using namespace math;
    attach<ZeroAtZeroModel, AbsFOp, AbsIOp, AtanOp, Atan2Op, CbrtOp, CeilOp,
           ErfOp, FloorOp, RoundOp, RoundEvenOp, SinOp, TanhOp, TruncOp,
           CopySignOp>(context);
    attach<OnlyZeroAtZeroModel, SqrtOp>(context);
    attach<FiniteModel, CosOp>(context);
    // exp2 and the like overflow, log and rsqrt have poles.
    attach<ElementwiseModel, ExpOp, Exp2Op, ExpM1Op, LogOp, Log1pOp, Log2Op,
           Log10Op, RsqrtOp, TanOp, SinhOp, CoshOp, AsinOp, AcosOp, AsinhOp,
           AcoshOp, AtanhOp, PowFOp, FPowIOp, IPowIOp, FmaOp,
           CountLeadingZerosOp, CountTrailingZerosOp, CtPopOp>(context);
  });
}

void heddle::registerShardingRuleModels(DialectRegistry &registry) {
  registerArithShardingRuleModels(registry);
  registerSliceShardingRuleModels(registry);
  registerTensorShardingRuleModels(registry);
  registerLinalgShardingRuleModels(registry);
}
