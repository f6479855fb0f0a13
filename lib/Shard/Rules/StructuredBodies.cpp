//===- StructuredBodies.cpp - Bodies of structured ops --------------------===//

#include "StructuredBodies.h"
#include "CombineParts.h"
#include "dialects/Interfaces/ScalarBodies.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Analysis of bodies
//===----------------------------------------------------------------------===//

static FactorKind combinationOf(Operation *combiner, bool accumulatorFirst) {
  bool isBit = combiner->getResult(0).getType().isInteger(1);
  // A difference `accumulator - x` sums negated parts.
  if (isa<arith::SubFOp>(combiner) || (isa<arith::SubIOp>(combiner) && !isBit))
    return accumulatorFirst ? FactorKind::Sum : FactorKind::Replicate;
  if (isa<arith::AddFOp>(combiner) || (isa<arith::AddIOp>(combiner) && !isBit))
    return FactorKind::Sum;
  if (isa<arith::MaximumFOp, arith::MaxNumFOp>(combiner) ||
      (isa<arith::MaxSIOp>(combiner) && !isBit))
    return FactorKind::Max;
  bool isKnown = getNeutral(combiner) && !isa<arith::SubIOp>(combiner);
  return isKnown ? FactorKind::Combine : FactorKind::Replicate;
}

std::optional<Reduction> heddle::findReduction(linalg::LinalgOp op) {
  if (op.getNumDpsInits() != 1)
    return std::nullopt;
  SmallVector<Operation *, 4> combiners;
  if (!matchReduction(op.getRegionOutputArgs(), 0, combiners) ||
      combiners.size() != 1)
    return std::nullopt;
  Operation *combiner = combiners[0];
  BlockArgument accumulator = op.getRegionOutputArgs()[0];
  if (combiner->getNumOperands() != 2 || combiner->getNumResults() != 1 ||
      combiner->getBlock() != accumulator.getOwner() ||
      combiner->getBlock()->getTerminator()->getOperand(0) !=
          combiner->getResult(0))
    return std::nullopt;
  unsigned place = combiner->getOperand(0) == accumulator ? 0 : 1;
  if (combiner->getOperand(place) != accumulator ||
      combiner->getOperand(1 - place) == accumulator)
    return std::nullopt;
  FactorKind kind = combinationOf(combiner, place == 0);
  if (isa<arith::MaxNumFOp>(combiner) && !startsFromNumbers(op))
    kind = FactorKind::Combine;
  return Reduction{combiner, &combiner->getOpOperand(1 - place), kind};
}

/// Returns whether a comparison is false if both operands are equal or one is
/// NaN.
static bool isStrict(Operation *comparison) {
  if (auto floats = dyn_cast_or_null<arith::CmpFOp>(comparison))
    return llvm::is_contained(
        {arith::CmpFPredicate::OGT, arith::CmpFPredicate::OLT},
        floats.getPredicate());
  using arith::CmpIPredicate;
  auto integers = dyn_cast_or_null<arith::CmpIOp>(comparison);
  return integers &&
         llvm::is_contained({CmpIPredicate::sgt, CmpIPredicate::slt,
                             CmpIPredicate::ugt, CmpIPredicate::ult},
                            integers.getPredicate());
}

/// Returns whether `comparison`, which is strict, is true exactly if `result`
/// changes its accumulator. It compares the taken value with the accumulator,
/// in this order if `takenFirst`.
static bool isOrderOf(Operation *result, Operation *comparison,
                      bool takenFirst) {
  if (isa<arith::SelectOp>(result)) // selects by `comparison`
    return true;
  using arith::CmpIPredicate;
  bool isGreater = true, isUnsigned = false;
  if (auto floats = dyn_cast<arith::CmpFOp>(comparison)) {
    isGreater = floats.getPredicate() == arith::CmpFPredicate::OGT;
  } else {
    CmpIPredicate predicate = cast<arith::CmpIOp>(comparison).getPredicate();
    isUnsigned =
        predicate == CmpIPredicate::ugt || predicate == CmpIPredicate::ult;
    isGreater =
        predicate == CmpIPredicate::ugt || predicate == CmpIPredicate::sgt;
  }
  if (isUnsigned)
    return isGreater == takenFirst ? isa<arith::MaxUIOp>(result)
                                   : isa<arith::MinUIOp>(result);
  return isGreater == takenFirst
             ? isa<arith::MaximumFOp, arith::MaxNumFOp, arith::MaxSIOp>(result)
             : isa<arith::MinimumFOp, arith::MinNumFOp, arith::MinSIOp>(result);
}

std::optional<Choice> heddle::findChoice(linalg::LinalgOp op) {
  ArrayRef<BlockArgument> accumulators = op.getRegionOutputArgs();
  Block *body = op.getBlock();
  if (accumulators.size() < 2 || op.getNumReductionLoops() == 0)
    return std::nullopt;
  // An op inside a branch could read an accumulator that is no operand of the
  // branch.
  if (llvm::any_of(*body,
                   [](Operation &inner) { return inner.getNumRegions() != 0; }))
    return std::nullopt;
  Choice choice;
  AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  for (auto [i, accumulator] : llvm::enumerate(accumulators)) {
    Operation *result = body->getTerminator()->getOperand(i).getDefiningOp();
    if (!result || op.getMatchingIndexingMap(op.getDpsInitOperand(i)) != map)
      return std::nullopt;
    Value taken;
    if (auto select = dyn_cast<arith::SelectOp>(result)) {
      Operation *comparison = select.getCondition().getDefiningOp();
      if (select.getFalseValue() != accumulator || !isStrict(comparison) ||
          (choice.comparison && choice.comparison != comparison))
        return std::nullopt;
      choice.comparison = comparison;
      taken = select.getTrueValue();
    } else if (isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
                   arith::MinNumFOp, arith::MaxSIOp, arith::MinSIOp,
                   arith::MaxUIOp, arith::MinUIOp>(result)) {
      bool isFirst = result->getOperand(0) == accumulator;
      if (!isFirst && result->getOperand(1) != accumulator)
        return std::nullopt;
      taken = result->getOperand(isFirst ? 1 : 0);
    } else {
      return std::nullopt;
    }
    choice.results.push_back(result);
    choice.taken.push_back(taken);
  }
  // The taken values must not depend on the accumulators.
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.omitBlockArguments = true;
  for (Value taken : choice.taken) {
    if (llvm::is_contained(accumulators, taken))
      return std::nullopt;
    if (taken.getParentBlock() == body && taken.getDefiningOp())
      getBackwardSlice(taken, &slice, options);
    if (Operation *op = taken.getDefiningOp(); op && op->getBlock() == body)
      slice.insert(op);
  }
  for (Operation *inner : slice)
    for (Value operand : inner->getOperands())
      if (llvm::is_contained(accumulators, operand))
        return std::nullopt;
  // The comparison must be between a taken value and the accumulator of the
  // same result, and that result must follow it. Any other comparison depends
  // on earlier iterations.
  if (!choice.comparison)
    return std::nullopt;
  Value a = choice.comparison->getOperand(0),
        b = choice.comparison->getOperand(1);
  for (auto [i, accumulator] : llvm::enumerate(accumulators)) {
    bool takenFirst = a == choice.taken[i] && b == accumulator;
    bool takenLast = a == accumulator && b == choice.taken[i];
    if ((takenFirst || takenLast) &&
        isOrderOf(choice.results[i], choice.comparison, takenFirst))
      return choice;
  }
  return std::nullopt;
}

bool heddle::isFiniteForAll(Operation *conversion) {
  auto from = cast<IntegerType>(
      getElementTypeOrSelf(conversion->getOperand(0).getType()));
  auto to =
      cast<FloatType>(getElementTypeOrSelf(conversion->getResult(0).getType()));
  bool isSigned = isa<arith::SIToFPOp>(conversion);
  unsigned width = from.getWidth();
  APFloat number(to.getFloatSemantics());
  number.convertFromAPInt(isSigned ? APInt::getSignedMinValue(width)
                                   : APInt::getMaxValue(width),
                          isSigned, APFloat::rmNearestTiesToEven);
  return number.isFinite();
}

static bool isFiniteConstant(Value value) {
  FloatAttr number;
  return matchPattern(value, m_Constant(&number))
             ? number.getValue().isFinite()
             : matchPattern(value, m_Constant());
}

/// Collects the inputs that are factors of a product. Returns false if the
/// value is anything but a product of inputs and constants.
static bool collectFactors(Value value, Block *body,
                           SmallVectorImpl<unsigned> &inputs) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() != body ||
        llvm::is_contained(inputs, argument.getArgNumber()))
      return false;
    inputs.push_back(argument.getArgNumber());
    return true;
  }
  Operation *op = value.getDefiningOp();
  if (isa<arith::ConstantOp>(op))
    return isFiniteConstant(value);
  bool isProduct =
      isa<arith::MulFOp, arith::MulIOp, arith::ExtFOp, arith::ExtSIOp,
          arith::ExtUIOp, arith::SIToFPOp, arith::UIToFPOp>(op);
  // The conversion could make infinity of the padding, and zero times infinity
  // is not zero.
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op) && !isFiniteForAll(op))
    return false;
  return isProduct && op->getBlock() == body &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return collectFactors(operand, body, inputs);
         });
}

SmallVector<unsigned> heddle::getReducedLoops(linalg::LinalgOp op) {
  SmallVector<unsigned> loops;
  op.getReductionDims(loops);
  llvm::erase_if(loops, [&](unsigned loop) {
    return llvm::any_of(op.getDpsInitsMutable(), [&](OpOperand &init) {
      return op.getMatchingIndexingMap(&init).isFunctionOfDim(loop);
    });
  });
  return loops;
}

std::optional<SmallVector<unsigned>>
heddle::findProduct(linalg::LinalgOp op, const Reduction &reduction) {
  SmallVector<unsigned> inputs;
  if (reduction.kind != FactorKind::Sum ||
      !collectFactors(reduction.contribution->get(),
                      reduction.combiner->getBlock(), inputs))
    return std::nullopt;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (unsigned loop : getReducedLoops(op))
    if (llvm::none_of(inputs, [&](unsigned input) {
          return maps[input].isFunctionOfDim(loop);
        }))
      return std::nullopt;
  return inputs;
}

namespace {
/// How a value of a body depends on the inputs. `inputs`: all inputs that it
/// depends on. `groups`: sets of inputs in which it is linear together while
/// all other inputs are held. Example: a * b + a * c has the groups {a} and {b,
/// c}.
struct Linearity {
  BitVector inputs;
  SmallVector<BitVector, 2> groups;
};
} // namespace

/// The limit of groups. A sum of products has a group for each choice of one
/// factor of each product.
static constexpr size_t kMaxGroups = 16;

static Linearity addLinear(const Linearity &a, const Linearity &b) {
  Linearity sum{a.inputs, {}};
  sum.inputs |= b.inputs;
  for (const BitVector &mine : a.groups)
    for (const BitVector &theirs : b.groups) {
      // The sum is linear in `both` if each summand is linear in the members of
      // `both` that it depends on.
      BitVector both = mine, inA = a.inputs, inB = b.inputs;
      both |= theirs;
      inA &= both;
      inB &= both;
      if (inA == mine && inB == theirs && sum.groups.size() < kMaxGroups &&
          !llvm::is_contained(sum.groups, both))
        sum.groups.push_back(both);
    }
  return sum;
}

/// A product is linear in each group of one factor that shares no input with
/// the other factor. A quotient is linear only in groups of the dividend.
static Linearity multiplyLinear(const Linearity &a, const Linearity &b,
                                bool isQuotient) {
  Linearity product{a.inputs, {}};
  product.inputs |= b.inputs;
  auto take = [&](const Linearity &mine, const Linearity &held) {
    for (const BitVector &group : mine.groups)
      if (!group.anyCommon(held.inputs) && product.groups.size() < kMaxGroups)
        product.groups.push_back(group);
  };
  take(a, b);
  if (!isQuotient)
    take(b, a);
  return product;
}

LinearBody heddle::findLinearGroups(linalg::LinalgOp op) {
  LinearBody linear;
  if (op->getNumResults() != 1 || op.getNumReductionLoops() != 0)
    return linear;
  Block *body = op.getBlock();
  BitVector none(body->getNumArguments());
  DenseMap<Value, Linearity> known;
  for (BlockArgument argument : body->getArguments()) {
    BitVector self = none;
    self.set(argument.getArgNumber());
    known[argument] = {self, {self}};
  }
  auto find = [&](Value value) -> std::optional<Linearity> {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    if (isFiniteConstant(value))
      return Linearity{none, {}};
    return std::nullopt;
  };
  for (Operation &inner : body->without_terminator()) {
    bool isSum = isa<arith::AddFOp, arith::SubFOp>(inner);
    bool isQuotient = isa<arith::DivFOp>(inner);
    if (isa<arith::NegFOp, arith::ExtFOp>(inner)) {
      if (auto x = find(inner.getOperand(0)))
        known[inner.getResult(0)] = *x;
    } else if (isSum || isQuotient || isa<arith::MulFOp>(inner)) {
      auto a = find(inner.getOperand(0)), b = find(inner.getOperand(1));
      if (!a || !b)
        continue;
      linear.divides |= isQuotient;
      known[inner.getResult(0)] =
          isSum ? addLinear(*a, *b) : multiplyLinear(*a, *b, isQuotient);
    }
  }
  if (auto found = find(body->getTerminator()->getOperand(0)))
    for (const BitVector &group : found->groups) {
      LinearGroup &operands = linear.groups.emplace_back();
      for (unsigned input : group.set_bits())
        operands.operands.push_back(input);
    }
  return linear;
}
