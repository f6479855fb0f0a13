//===- Padding.cpp - The rows beyond the end of a dimension ---------------===//

#include "Padding.h"

using namespace mlir;
using namespace heddle;

bool heddle::isPadded(int64_t size, ArrayRef<StringAttr> axes, MeshAttr mesh) {
  return size % mesh.getSize(axes) != 0;
}

/// Returns the worst padding of a tensor along a factor. Returns nothing if the
/// factor does not run over the tensor.
static std::optional<Padding> paddingAlong(const TensorFactors &tensor,
                                           unsigned factor,
                                           const PaddingOfDims &padding) {
  std::optional<Padding> worst;
  for (auto [dim, state] : llvm::zip(tensor, padding))
    if (llvm::is_contained(dim, factor))
      worst = worst ? std::max(*worst, state) : state;
  return worst;
}

static bool isInteger(Value value) {
  return !isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

namespace {
/// The padding of an op's operands along one factor.
struct Along {
  Operation *op;
  const ShardingRule &rule;
  unsigned factor;
  ArrayRef<PaddingOfDims> operands;

  std::optional<Padding> get(unsigned operand) const {
    std::optional<Padding> padding =
        paddingAlong(rule.operands[operand], factor, operands[operand]);
    if (padding == Padding::Unknown && isInteger(op->getOperand(operand)))
      return Padding::Finite;
    return padding;
  }
  /// Returns whether all operands that satisfy `condition` have padding that is
  /// no worse than `atMost`.
  bool all(Padding atMost, function_ref<bool(unsigned)> condition) const {
    for (unsigned i = 0; i < operands.size(); ++i)
      if (condition(i))
        if (std::optional<Padding> padding = get(i); padding > atMost)
          return false;
    return true;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

static void addMask(SmallVectorImpl<OperandMask> &masks, const Along &along,
                    unsigned operand, PaddingValue value) {
  auto known = llvm::find_if(masks, [&](const OperandMask &mask) {
    return mask.operand == operand && mask.value == value;
  });
  if (known == masks.end())
    known = masks.insert(masks.end(), OperandMask{operand, {}, value});
  for (auto [i, dim] : llvm::enumerate(along.rule.operands[operand]))
    if (llvm::is_contained(dim, along.factor) &&
        !llvm::is_contained(known->dims, (int64_t)i))
      known->dims.push_back(i);
}

/// Adds the masks that a sum over the factor needs if `group` makes its padding
/// zero: zeros in operands of the group, finite numbers in all others. Returns
/// the bytes of the masked operands, or nothing if the factor runs over no
/// operand of the group.
static std::optional<int64_t> maskSum(const Along &along,
                                      const LinearGroup &group,
                                      SmallVectorImpl<OperandMask> &masks) {
  int64_t bytes = 0;
  bool any = false;
  for (unsigned i = 0; i < along.operands.size(); ++i) {
    std::optional<Padding> padding = along.get(i);
    if (!padding)
      continue;
    bool inGroup = llvm::is_contained(group.operands, i);
    any |= inGroup;
    if (*padding > (inGroup ? Padding::Zero : Padding::Finite)) {
      addMask(masks, along, i, PaddingValue::Zero);
      bytes += getBytes(along.op->getOperand(i).getType());
    }
  }
  if (!any)
    return std::nullopt;
  return bytes;
}

static LogicalResult errorNoMask(Operation *op, const Factor &factor,
                                 unsigned index, ArrayRef<StringAttr> axes,
                                 const ShardingRule &rule, MeshAttr mesh) {
  int64_t degree = mesh.getSize(axes), below = 1, above = factor.size;
  for (int64_t i = 1; i <= factor.size; ++i) {
    if (factor.size % i != 0)
      continue;
    if (i < degree)
      below = i;
    if (i > degree) {
      above = i;
      break;
    }
  }
  auto diag = op->emitOpError();
  if (StringRef name = getOpName(op); !name.empty())
    diag << "\"" << name << "\": ";
  diag << "factor " << getFactorKey(rule, index) << " of size " << factor.size
       << " cannot be padded for " << degree << " devices over ";
  llvm::interleaveComma(axes, diag, [&](StringAttr axis) { diag << axis; });
  diag << ": the op is linear in no operand that it reduces; the nearest legal "
          "degrees are "
       << below << " and " << above;
  return diag;
}

FailureOr<SmallVector<OperandMask>>
heddle::findMasks(Operation *op, const ShardingRule &rule,
                  const FactorAxes &axes, MeshAttr mesh,
                  ArrayRef<PaddingOfDims> operands) {
  SmallVector<OperandMask> masks;
  for (auto [i, factor] : llvm::enumerate(rule.factors)) {
    if (factor.masksItself || !isPadded(factor.size, axes[i], mesh))
      continue;
    Along along{op, rule, unsigned(i), operands};
    if (factor.kind == FactorKind::Max) {
      for (unsigned k = 0; k < operands.size(); ++k)
        if (along.get(k))
          addMask(masks, along, k, PaddingValue::Lowest);
    } else if (factor.kind == FactorKind::Sum) {
      std::optional<int64_t> least;
      SmallVector<OperandMask> best;
      for (const LinearGroup &group : rule.linear) {
        SmallVector<OperandMask> wanted = masks;
        std::optional<int64_t> bytes = maskSum(along, group, wanted);
        if (bytes && (!least || *bytes < *least)) {
          least = bytes;
          best = std::move(wanted);
        }
      }
      if (!least)
        return errorNoMask(op, factor, i, axes[i], rule, mesh);
      masks = std::move(best);
    }
  }
  for (OperandMask &mask : masks)
    llvm::sort(mask.dims);
  return masks;
}

//===----------------------------------------------------------------------===//
// Inference
//===----------------------------------------------------------------------===//

/// Returns whether a linear group makes the result zero along the factor: all
/// operands of the group are zero there, and no other operand can turn the zero
/// into NaN.
static bool isZeroByLinearity(const Along &along, const LinearGroup &group,
                              unsigned result) {
  if (!group.coversResult(result))
    return false;
  for (unsigned operand : group.operands)
    if (along.get(operand) != Padding::Zero)
      return false;
  // Zero times infinity, or zero divided by zero, is not zero.
  auto isOther = [&](unsigned operand) {
    return !llvm::is_contained(group.operands, operand);
  };
  if (along.rule.keepsFinite)
    return along.all(Padding::Finite, isOther);
  for (unsigned i = 0; i < along.operands.size(); ++i)
    if (isOther(i) && along.get(i))
      return false;
  return true;
}

static Padding inferAlong(const Along &along, unsigned result) {
  const ShardingRule &rule = along.rule;
  const Factor &factor = rule.factors[along.factor];
  auto everyone = [](unsigned) { return true; };
  bool mayBeZero = factor.padding != PaddingRule::NeverZero;
  if (factor.padding == PaddingRule::Zero)
    return Padding::Zero;
  if (factor.padding == PaddingRule::ZeroIfOperandsZero &&
      along.all(Padding::Zero, everyone))
    return Padding::Zero;
  for (const LinearGroup &group : rule.linear)
    if (mayBeZero && isZeroByLinearity(along, group, result))
      return Padding::Zero;
  if (mayBeZero && rule.preservesZeroPadding) {
    bool zero = !along.operands.empty();
    for (unsigned i = 0; i < along.operands.size(); ++i)
      zero &= along.get(i) == Padding::Zero;
    if (zero)
      return Padding::Zero;
  }
  if (isInteger(along.op->getResult(result)))
    return Padding::Finite;
  if (rule.keepsFinite && along.all(Padding::Finite, everyone))
    return Padding::Finite;
  return Padding::Unknown;
}

SmallVector<PaddingOfDims>
heddle::inferPadding(Operation *op, const ShardingRule &rule,
                     const FactorAxes &axes, MeshAttr mesh,
                     ArrayRef<PaddingOfDims> operands) {
  SmallVector<PaddingOfDims> results;
  for (auto [k, tensor] : llvm::enumerate(rule.results)) {
    PaddingOfDims padding;
    for (const DimensionFactors &dim : tensor) {
      Padding worst = Padding::Zero;
      for (unsigned factor : dim)
        if (isPadded(rule.factors[factor].size, axes[factor], mesh))
          worst = std::max(worst, inferAlong({op, rule, factor, operands}, k));
      padding.push_back(worst);
    }
    results.push_back(std::move(padding));
  }
  return results;
}
